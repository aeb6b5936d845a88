// `epsim goodput`: how many requests per second each policy sustains.
#include "sim/serving/goodput.h"

#include <fmt/format.h>
#include <tbb/global_control.h>

#include <iostream>
#include <mutex>

#include "sim/app/command_line.h"
#include "sim/app/goodput_options.h"
#include "sim/app/inputs.h"
#include "sim/app/seeds.h"
#include "sim/core/files.h"
#include "sim/report/format.h"
#include "sim/report/goodput_tables.h"
#include "sim/report/goodput_writer.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr const char* kMarker = "resolved.yaml";

GoodputStudy study_of(const std::vector<Scenario>& by_seed, const GoodputOptions& options, bool quiet, bool strict) {
  std::mutex turn;
  const auto tell = [&](const GoodputSubject& subject, const Probe& p) {
    const std::lock_guard lock(turn);
    std::cerr << fmt::format("{}, seed {}: {:.4g} req/s offered, {:.4g} completed, TTFT {} ms{}\n",
                             printable(subject.policy), subject.seed, p.offered, p.completed,
                             rounded(p.ttft_mean_s * 1e3), p.stable ? "" : ", unstable");
  };
  RunControl control;
  control.stop = &interrupted();
  control.strict_calibration = strict;
  GoodputStudy study;
  study.options = options;
  study.seeds = static_cast<int>(by_seed.size());
  for (const PolicyChoice& policy : by_seed.front().policies) {
    study.policies.push_back(policy.label);
  }
  study.same_requests = same_requests(by_seed);
  study.searches = search_all(subjects_of(by_seed, control), options, quiet ? OnProbe{} : OnProbe{tell});
  return study;
}

int goodput(const po::variables_map& values, const std::vector<std::string>& labels) {
  interrupted();  // from here on, Ctrl-C is ours
  const GoodputOptions options = read_goodput_options(values);
  const std::vector<Scenario> by_seed = scenarios_by_seed(values, labels);
  const Scenario& scenario = by_seed.front();
  print_warnings(scenario);
  const fs::path target = values.count("output") > 0 ? fs::path(values["output"].as<std::string>())
                                                     : fs::path("out") / (scenario.name + "-goodput");
  OutputFolder folder(target, values["overwrite"].as<bool>(), kMarker);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  GoodputStudy study;
  try {
    study = study_of(by_seed, options, values["quiet"].as<bool>(), values["strict-calibration"].as<bool>());
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
  po::options_description options("options");
  const auto word = [] { return po::value<std::string>(); };
  options.add_options()("policies", word(), "policies to compare, separated by commas");
  add_seeds_option(options, 3);
  add_goodput_options(options);
  add_scenario_options(options);
  add_output_options(options);
  add_calibration_option(options);
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
