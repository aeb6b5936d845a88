// `epsim goodput`: how many requests per second each policy sustains.
#include "sim/serving/goodput.h"

#include <fmt/format.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <charconv>
#include <iostream>
#include <mutex>
#include <thread>

#include "sim/app/command_line.h"
#include "sim/app/inputs.h"
#include "sim/core/files.h"
#include "sim/report/format.h"
#include "sim/report/goodput_tables.h"
#include "sim/report/goodput_writer.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMarker = "resolved.yaml";
constexpr int kMostSeeds = 100;

double number_of(const std::string& option, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError({"", 0, option}, fmt::format("'{}' is not a number.", text));
  }
  return value;
}

std::vector<double> numbers_of(const std::string& option, const std::string& text) {
  std::vector<double> out;
  for (const std::string& word : split_list(text)) {
    out.push_back(number_of(option, word));
  }
  return out;
}

// "ttft=2s,itl=100ms,e2e=30s"; each at most once.
SloBounds slo_of(const std::string& text) {
  SloBounds slo;
  const std::vector<std::string> names = {"ttft", "itl", "e2e"};
  std::optional<Seconds>* const bounds[] = {&slo.ttft, &slo.itl, &slo.e2e};
  for (const std::string& word : split_list(text)) {
    const std::size_t at = word.find('=');
    const std::string name = word.substr(0, at);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      throw InputError({"", 0, "slo"}, unknown_name("bound", name, names));
    }
    std::optional<Seconds>& bound = *bounds[found - names.begin()];
    std::string problem = "a bound is written as in ttft=2s.";
    const auto value = at == std::string::npos ? std::nullopt : parse_quantity(word.substr(at + 1), "time", problem);
    if (!value || bound) {
      throw InputError({"", 0, "slo"}, bound ? fmt::format("{} is given twice.", name) : problem);
    }
    bound = Seconds{*value};
  }
  return slo;
}

GoodputOptions options_of(const po::variables_map& values) {
  GoodputOptions o;
  const auto read = [&](const char* name, double& target) {
    if (values.count(name) > 0) {
      target = number_of(name, values[name].as<std::string>());
    }
  };
  read("k", o.k);
  read("tolerance", o.tolerance);
  read("min-completed", o.min_completed);
  read("warmup", o.warmup_share);
  read("drain", o.drain_share);
  read("max-drift", o.max_drift);
  read("min-requests-ratio", o.min_requests_ratio);
  const auto read_list = [&](const char* name, std::vector<double>& target) {
    if (values.count(name) > 0) {
      target = numbers_of(name, values[name].as<std::string>());
    }
  };
  read_list("sensitivity", o.sensitivity);
  read_list("rates", o.rates);
  if (values.count("slo") > 0) {
    o.slo = slo_of(values["slo"].as<std::string>());
  }
  validate(o);
  return o;
}

po::options_description goodput_options() {
  const auto word = [] { return po::value<std::string>(); };
  po::options_description options("options");
  options.add_options()("policies", word(), "policies to compare, separated by commas")(
      "k", word(), "the knee is where mean TTFT is k times that of an idle instance; default 5")(
      "seeds", po::value<int>()->default_value(3), "seeds of requests and routing, from the scenario's own on")(
      "slo", word(), "bounds, as in ttft=2s,itl=100ms,e2e=60s; itl is a request's mean gap between tokens")(
      "tolerance", word(), "relative width at which the search for the knee ends; default 0.02")(
      "sensitivity", word(), "other values of k to report; default 1.5,2,2.5,4,5,8,16")(
      "rates", word(), "requests/s to probe besides those that the search chooses, as in 2,2.5,3")(
      "warmup", word(), "share of the requests, by arrival, that is not counted at the start; default 0.1")(
      "drain", word(), "likewise at the end; default 0.1")(
      "min-completed", word(), "completed / offered rate that an acceptable rate must reach; default 0.95")(
      "max-drift", word(), "growth between the halves of a run that still counts as steady; default 0.25")(
      "min-requests-ratio", word(), "requests of the trace for each one in the system at the knee; default 20");
  return options;
}

// The scenario under each seed, from its own on. The file is read anew each time.
std::vector<Scenario> scenarios_by_seed(const po::variables_map& values, const std::vector<std::string>& labels,
                                        int seeds) {
  std::vector<Scenario> out;
  for (int s = 0; s < seeds; ++s) {
    Config config = open_scenario(values);
    if (s > 0) {
      config.set(fmt::format("seed={}", static_cast<std::int64_t>(out.front().seed) + s));
    }
    out.push_back(read_scenario(config, labels));
  }
  return out;
}

bool same_arrivals(const RequestTrace& a, const RequestTrace& b) {
  return std::equal(a.requests.begin(), a.requests.end(), b.requests.begin(), b.requests.end(),
                    [](const Request& x, const Request& y) {
                      return x.arrival == y.arrival && x.input_tokens == y.input_tokens &&
                             x.output_tokens == y.output_tokens;
                    });
}

GoodputStudy study_of(const std::vector<Scenario>& by_seed, const GoodputOptions& options, bool quiet) {
  std::mutex turn;
  const auto tell = [&](const GoodputSubject& subject, const Probe& p) {
    const std::lock_guard lock(turn);
    std::cerr << fmt::format("{}, seed {}: {:.4g} req/s offered, {:.4g} completed, TTFT {} ms{}\n",
                             printable(subject.policy), subject.seed, p.offered, p.completed,
                             rounded(p.ttft_mean_s * 1e3), p.stable ? "" : ", unstable");
  };
  RunControl control;
  control.stop = &interrupted();
  GoodputStudy study;
  study.options = options;
  study.seeds = static_cast<int>(by_seed.size());
  for (const PolicyChoice& policy : by_seed.front().policies) {
    study.policies.push_back(policy.label);
  }
  study.same_requests = std::all_of(by_seed.begin(), by_seed.end(), [&](const Scenario& s) {
    return same_arrivals(s.requests, by_seed.front().requests);
  });
  study.searches = search_all(subjects_of(by_seed, control), options, quiet ? OnProbe{} : OnProbe{tell});
  return study;
}

int goodput(const po::variables_map& values, const std::vector<std::string>& labels) {
  interrupted();  // from here on, Ctrl-C is ours
  const GoodputOptions options = options_of(values);
  const int seeds = values["seeds"].as<int>();
  if (seeds < 1 || seeds > kMostSeeds) {
    throw InputError({"", 0, "seeds"}, fmt::format("{} seeds; 1 to {} are allowed.", seeds, kMostSeeds));
  }
  const std::vector<Scenario> by_seed = scenarios_by_seed(values, labels, seeds);
  const Scenario& scenario = by_seed.front();
  const fs::path target = values.count("output") > 0 ? fs::path(values["output"].as<std::string>())
                                                     : fs::path("out") / (scenario.name + "-goodput");
  OutputFolder folder(target, values["overwrite"].as<bool>(), kMarker);
  const int threads = values["threads"].as<int>();
  const auto workers = threads > 0 ? static_cast<std::size_t>(threads) : std::thread::hardware_concurrency();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers);
  GoodputStudy study;
  try {
    study = study_of(by_seed, options, values["quiet"].as<bool>());
  } catch (const SearchInterrupted&) {
    std::cout << "interrupted: the search was not complete, and nothing was written\n";
    return kInterrupted;
  }
  write_goodput(folder.path(), study, describe_inputs(scenario));
  folder.commit();
  std::cout << fmt::format("goodput of {}: {} on {} GPUs, {} requests\n\n", scenario.name, scenario.model.name,
                           scenario.cluster.gpus(), scenario.requests.requests.size())
            << goodput_tables(study) << "\nresults: " << target.string() << "\n";
  return 0;
}

}  // namespace

int goodput_verb(const std::vector<std::string>& words) {
  po::options_description options = goodput_options();
  add_scenario_options(options);
  add_output_options(options);
  const auto values = parse_words(
      words,
      "epsim goodput SCENARIO.yaml --policies base,eplb,craft [options]\n\n"
      "Finds the request rate that each policy sustains: the knee of mean TTFT, the saturation throughput and, with\n"
      "--slo, the requests per second that meet every bound. Rates scale the arrivals of the scenario's own requests, "
      "so\n"
      "every policy sees the same ones; ratios between policies are taken seed by seed.\n",
      options, {"scenario"});
  if (!values) {
    return 0;
  }
  const std::vector<std::string> labels =
      values->count("policies") > 0 ? split_list((*values)["policies"].as<std::string>()) : std::vector<std::string>{};
  return goodput(*values, labels);
}

}  // namespace epsim::app
