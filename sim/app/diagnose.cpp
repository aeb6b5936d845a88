// `epsim diagnose`: should EPLB be on, told from a file of expert counts. docs/diagnose.md.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "models/catalogue/model_catalogue.h"
#include "policies/registry.h"
#include "sim/app/command_line.h"
#include "sim/app/diagnose_counts.h"
#include "sim/app/seeds.h"
#include "sim/app/trace_verbs.h"
#include "sim/report/diagnosis_report.h"
#include "sim/scenario/new_scenario.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/diagnosis.h"
#include "sim/study/job_runner.h"
#include "traces/expert_loads/window_load_source.h"

namespace epsim::app {

namespace po = boost::program_options;

namespace {

constexpr int kMostWindows = 8;
constexpr int kFewestNodes = 2, kMostNodes = 64;  // without a scenario
constexpr int kOn = 10, kOff = 11, kUnsure = 12;  // exit codes

// What stands in place of the scenario's own loads until those are replaced by the counts.
constexpr const char* kNoLoads[] = {"loads={kind: uniform}", "plan_loads={kind: uniform}"};
// Of a deployment that nothing is said of: 2000 tokens in and 500 out on average.
constexpr const char* kUsualRequests =
    "requests={kind: poisson, rate: 1/s, count: 500, lengths: {input: {kind: uniform, min: 1000, max: 3000}, output: "
    "{kind: uniform, min: 250, max: 750}}}";

struct Question {
  RecordedCounts counts;
  std::size_t planned = 0;  // windows that plans are made from
  std::string files;        // for the title
};

// Ids of experts do not say how many there are: then the model does.
RecordedCounts read_recording(const po::variables_map& values, const std::string& file) {
  const std::string format = recording_format(values);
  try {
    return read_counts(file, format, kMostWindows);
  } catch (const InputError& e) {
    const bool model = values.count("model") > 0;
    if (e.place.key != "experts") {
      throw;
    }
    if (!model && values.count("scenario") == 0) {
      throw InputError({file, 0, ""},
                       "this format does not say how many experts a layer has; name the model with --model, or give "
                       "--scenario.");
    }
    const int experts =
        model ? find_model(values["model"].as<std::string>()).experts
              : scenarios_by_seed(values, diagnosed_policies(), {kNoLoads[0], kNoLoads[1]}).front().model.experts;
    return read_counts(file, format, kMostWindows, experts);
  }
}

Question read_question(const po::variables_map& values) {
  const std::string file = argument(values, "counts", "the recording to plan from");
  Question out{read_recording(values, file), 0, file};
  if (values.count("later") > 0) {
    const std::string later = values["later"].as<std::string>();
    const RecordedCounts more = read_recording(values, later);
    if (more.layers() != out.counts.layers() || more.experts != out.counts.experts) {
      throw InputError({later, 0, ""},
                       fmt::format("this file has {} layers of {} experts, {} has {} of {}.", more.layers(),
                                   more.experts, file, out.counts.layers(), out.counts.experts));
    }
    out.planned = out.counts.windows.size();
    out.counts.windows.insert(out.counts.windows.end(), more.windows.begin(), more.windows.end());
    out.files = fmt::format("planned from {}, scored on {}", file, later);
    return out;
  }
  const std::size_t windows = out.counts.windows.size();
  out.planned = windows == 1 ? 1 : windows / 2;
  out.files += windows == 1 ? ", one window" : fmt::format(", planned from {} of {} windows", out.planned, windows);
  return out;
}

std::vector<Scenario> usual_scenarios(const po::variables_map& values, const NewScenario& wanted) {
  std::vector<Scenario> out;
  for (int s = 0; s < values["seeds"].as<int>(); ++s) {
    Config config = Config::from_text(scenario_document(with_dtype(wanted)), "the scenario of epsim diagnose");
    for (const char* assignment : {kUsualRequests, kNoLoads[0], kNoLoads[1]}) {
      config.set(assignment);
    }
    for (const std::string& assignment :
         values.count("set") > 0 ? values["set"].as<std::vector<std::string>>() : std::vector<std::string>{}) {
      config.set(assignment);
    }
    config.set(fmt::format("seed={}", s + 1));
    out.push_back(read_scenario(config, diagnosed_policies()));
  }
  return out;
}

// On the fewest nodes that hold the model with copies, unless the user says how many.
std::vector<Scenario> scenarios_without_file(const po::variables_map& values, const Question& question,
                                             std::string& told) {
  const std::string file = values["counts"].as<std::string>();
  const ModelOfCounts model = values.count("model") > 0 ? ModelOfCounts{values["model"].as<std::string>(), {}}
                                                        : model_of_counts(question.counts, file);
  NewScenario wanted{"sglang", model.name, values["node"].as<std::string>(), ""};
  check_counts(question.counts, find_model(model.name), file);
  const bool stated = values.count("nodes") > 0;
  wanted.nodes = stated ? values["nodes"].as<int>() : kFewestNodes;
  for (;; wanted.nodes *= 2) {
    try {
      std::vector<Scenario> out = usual_scenarios(values, wanted);
      for (const PolicyChoice& policy : out.front().policies) {
        prepare_run(out.front(), policy);
      }
      told =
          fmt::format("{} on {} x {} under SGLang{}", out.front().model.name, wanted.nodes, wanted.node,
                      model.all.size() > 1 ? fmt::format(" (the counts fit {} as well: --model)", model.all[1]) : "");
      return out;
    } catch (const DoesNotFit&) {
      if (stated || wanted.nodes * 2 > kMostNodes) {
        throw;
      }
    }
  }
}

std::vector<Scenario> scenarios_of(const po::variables_map& values, const Question& question, std::string& told) {
  if (values.count("scenario") == 0) {
    return scenarios_without_file(values, question, told);
  }
  std::vector<Scenario> out = scenarios_by_seed(values, diagnosed_policies(), {kNoLoads[0], kNoLoads[1]});
  told = fmt::format("{}: {} on {} GPUs", out.front().name, out.front().model.name, out.front().cluster.gpus());
  check_counts(question.counts, out.front().model, values["counts"].as<std::string>());
  return out;
}

int exit_code(BalanceAnswer answer) {
  return answer == BalanceAnswer::kOn ? kOn : answer == BalanceAnswer::kOff ? kOff : kUnsure;
}

int give_answer(const po::variables_map& values) {
  interrupted();  // from here on, Ctrl-C is ours
  const double worth = values["worth"].as<double>() / 100;
  if (!(worth >= 0 && worth < 1)) {
    throw InputError({"", 0, "worth"}, "a gain in per cent from 0 to 100, as in 2.5.");
  }
  const JsonOutput json(values);
  const Question question = read_question(values);
  std::string told;
  std::vector<Scenario> by_seed = scenarios_of(values, question, told);
  print_warnings(by_seed.front());
  const LoadWindow scored = scored_window(question.counts.windows, question.planned);
  for (Scenario& s : by_seed) {
    s.loads = std::make_shared<WindowLoadSource>(scored, s.model.top_k, 1.0, s.seed);
  }
  RunControl control;
  control.stop = &interrupted();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  try {
    const Diagnosis found = diagnose(std::move(by_seed), question.counts.windows, question.planned, control);
    const BalanceVerdict verdict = verdict_of(found, worth);
    std::cout << fmt::format("{}\n{}\n\n", told, question.files) << diagnosis_lines(found, verdict);
    json.print(diagnosis_json(found, verdict));
    return exit_code(verdict.answer);
  } catch (const StudyInterrupted&) {
    return kInterrupted;
  }
}

}  // namespace

int diagnose_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("scenario", po::value<std::string>(),
                        "the deployment; its loads are replaced by the counts. Default: SGLang on the fewest nodes of "
                        "--node that hold the model, two at least")(
      "model", po::value<std::string>(),
      "without a scenario: epsim list models, or a Hugging Face config.json; default: "
      "detected from the shape of the counts")("node", po::value<std::string>()->default_value("DGX-H200"),
                                         "without a scenario: epsim list hardware")(
      "nodes", po::value<int>(), "without a scenario: number of nodes")(
      "format", po::value<std::string>()->default_value("auto"),
      "of the recordings: auto, or one that `epsim trace import --help` lists")(
      "worth", po::value<double>()->default_value(2.5, "2.5"), "gain in % below which nothing is worth turning on")(
      "threads", po::value<int>()->default_value(0), "threads for independent runs; 0 = all cores");
  add_seeds_option(options, 3);
  add_scenario_options(options);
  add_json_option(options, "the answer, its gains with intervals, skew, stability and cost");
  const auto values = parse_words(
      words,
      "epsim diagnose COUNTS [LATER] [--scenario S.yaml] [options]\n\n"
      "Five lines from recorded expert counts: how skewed they are, how long a plan lasts, what placement, copies and\n"
      "perfect balance would bring, what EPLB would cost, and whether to turn it on. COUNTS is a recording that "
      "`epsim\n"
      "trace import` reads; policies plan from it (of several steps: the first half) and are scored on LATER (the "
      "second\n"
      "half). Exit codes: 10 on, 11 off, 12 unsure; others as for every verb.\n",
      options, {"counts", "later"});
  return values ? give_answer(*values) : 0;
}

}  // namespace epsim::app
