// `epsim sweep`: every combination of given values, each an independent run; goes on after a kill where it stopped.
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/app/command_line.h"
#include "sim/app/compared_labels.h"
#include "sim/app/goodput_options.h"
#include "sim/app/results_folder.h"
#include "sim/app/shared_study.h"
#include "sim/app/sweep_slurm.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/report/format.h"
#include "sim/report/goodput_summary.h"
#include "sim/study/job_runner.h"
#include "sim/study/study_manifest.h"
#include "sim/verbs/sweep_report.h"
#include "sim/verbs/sweep_run.h"
#include "sim/verbs/sweep_status.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

// A sweep as a file, for studies with more axes than a command line holds:
//
//   scenario: prefill.yaml
//   measure: goodput                  # options of `epsim sweep`, by their names
//   axes:
//     seed: [1, 2, 3]                 # a key and its values
//     nodes:                          # or a name, whose values have labels and set several keys each
//       p4de: [cluster.node=p4de.24xlarge, cluster.nodes=8]
//       H100: [cluster.node=DGX-H100, cluster.nodes=4]
struct SweepStudy {
  std::filesystem::path scenario;
  std::vector<SweepAxis> axes;
  std::vector<std::pair<std::string, std::string>> options;
};

SweepAxis read_axis(ConfigReader& axes, const std::string& name) {
  if (!axes.is_section(name)) {
    return {name, axes.required<std::vector<std::string>>(name), {}};
  }
  SweepAxis out{name, {}, {}};
  ConfigReader labels = axes.section(name);
  for (const std::string& label : labels.keys()) {
    out.values.push_back(label);
    out.settings.push_back(labels.required<std::vector<std::string>>(label));
    for (const std::string& setting : out.settings.back()) {
      labels.check(setting.find('=') != std::string::npos, label, "a value sets keys as --set does: cluster.nodes=4.");
    }
  }
  return out;
}

// Nothing where the file is a scenario: it has no `axes`. Throws InputError.
std::optional<SweepStudy> read_sweep_study(const std::filesystem::path& file) {
  const Config config = Config::from_file(file);
  ConfigReader root = config.root();
  if (!root.has("axes")) {
    return std::nullopt;
  }
  SweepStudy out{root.path("scenario"), {}, {}};
  ConfigReader axes = root.required_section("axes");
  for (const std::string& name : axes.keys()) {
    out.axes.push_back(read_axis(axes, name));
    axes.check(!out.axes.back().values.empty(), name, "an axis has at least one value.");
  }
  for (const std::string& option : root.keys()) {
    if (option != "scenario" && option != "axes") {
      out.options.emplace_back(option, root.required<std::string>(option));
    }
  }
  return out;
}

constexpr int kUsualParts = 64;
constexpr Seconds kSearchHeartbeat{10};  // a point takes minutes

SweepRequest request_of(const po::variables_map& values, std::vector<SweepAxis> axes) {
  SweepRequest request;
  request.axes = std::move(axes);
  open_scenario(values);  // its errors first: no file, a file that is not YAML, an override that is no assignment
  request.scenario = shipped_file(values["scenario"].as<std::string>());
  request.overrides = assignments_of(values);
  if (values.count("seed") > 0) {
    request.overrides.push_back("seed=" + values["seed"].as<std::string>());
  }
  if (values.count("vary") > 0) {
    for (const std::string& text : values["vary"].as<std::vector<std::string>>()) {
      request.axes.push_back(parse_axis(text));
    }
  }
  refuse_if(request.axes.empty(), "", "name what varies, as in --vary requests.rate=4/s,6/s,8/s");
  request.policies = option_list(values, "policies");
  const std::string measure = values["measure"].as<std::string>();
  refuse_if(measure != "run" && measure != "goodput", "measure", unknown_name("measure", measure, {"run", "goodput"}));
  request.measure = measure == "run" ? SweepMeasure::kRun : SweepMeasure::kGoodput;
  request.goodput = read_goodput_options(values);
  return request;
}

// Options of a search would be passed over in silence where no search is made.
void refuse_search_options(const po::variables_map& values) {
  po::options_description search;
  add_goodput_options(search);
  for (const auto& option : search.options()) {
    refuse_if(values.count(option->long_name()) > 0, option->long_name(), "this option is for --measure goodput.");
  }
}

void check_policies(const std::vector<std::string>& policies) {
  for (std::size_t i = 0; i < policies.size(); ++i) {
    refuse_if(
        std::find(policies.begin() + static_cast<std::ptrdiff_t>(i) + 1, policies.end(), policies[i]) != policies.end(),
        "policies", fmt::format("{} is named twice.", policies[i]));
  }
}

// Runs the sweep with a line of progress on stderr.
SweepOutcome run_with_progress(const SweepRequest& request, const fs::path& target, SweepControl control, bool quiet) {
  ProgressBoard board =
      progress_board(quiet, {.heartbeat = request.measure == SweepMeasure::kRun ? Seconds(2) : kSearchHeartbeat,
                             .unit = "points",
                             .simulated = false});
  ProgressLine* line = nullptr;
  std::int64_t done = 0;
  control.on_start = [&](std::size_t to_run, std::size_t before) {
    if (before > 0 && !quiet) {
      std::cerr << fmt::format("epsim: {} already finished\n", count_of(before, "point"));
    }
    line = &board.add("sweep", static_cast<std::int64_t>(to_run));
  };
  std::mutex turn;
  control.on_point = [&] {
    const std::lock_guard lock(turn);
    line->update(++done, Ticks{});
  };
  if (!quiet) {
    control.on_serving = [&](const ServedSoFar& run) {
      const std::lock_guard lock(turn);
      line->note(served_text(run));
      line->update(done, Ticks{});
    };
  }
  SweepOutcome out = run_sweep(request, target, control);
  line->finish(out.interrupted);
  return out;
}

// Of the first point; where it cannot be read, its row says so.
void print_first_warnings(const SweepRequest& request) {
  try {
    print_warnings(scenario_at(request, 0));
  } catch (const InputError&) {
  }
}

int sweep(const std::vector<std::string>& words, po::variables_map values, std::vector<SweepAxis> axes) {
  interrupted();  // from here on, Ctrl-C is ours
  check_slurm_options(values);
  const SharedStudy shared(values);
  const JsonOutput json(values);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  SweepRequest request = request_of(values, std::move(axes));
  if (request.measure == SweepMeasure::kRun) {
    refuse_search_options(values);
  }
  check_policies(request.policies);
  check_comparison_options(values);
  const std::string note = values["only-listed"].as<bool>() ? "" : add_compared(request, values["split"].as<bool>());
  const ResultsFolder results(values, request.scenario.stem().string() + "-sweep",
                              [&](const fs::path& earlier) { return holds_sweep(earlier, request); });
  const fs::path& target = results.path();
  SweepControl control;
  control.overwrite = values["overwrite"].as<bool>();
  control.retry_failed = values["retry-failed"].as<bool>();
  control.stop = &interrupted();
  control.sharing = shared.sharing();
  control.shown = json.wanted() ? std::vector<std::string>{} : columns_of_text(request);
  if (values["slurm"].as<bool>()) {
    const std::size_t left = prepare_sweep(request, target, control);
    const int most = values.count("array") > 0 ? values["array"].as<int>() : kUsualParts;
    const auto parts = static_cast<int>(std::clamp<std::size_t>(left, 1, static_cast<std::size_t>(most)));
    values.insert_or_assign("array", po::variable_value(boost::any(parts), false));
    std::cout << hand_to_slurm(words, values, target);
    return 0;
  }
  print_note(values, note);
  print_first_warnings(request);
  return shared.run(target, [&] {
    const SweepOutcome done = run_with_progress(request, target, control, values["quiet"].as<bool>() || shared.quiet());
    if (done.interrupted) {
      throw StudyInterrupted();
    }
    results.publish();
    std::cout << sweep_text(request, done) << "\nresults: " << target.string() << "\n";
    json.print(sweep_json(request, done));
    std::cout << (done.failed > 0 ? failures_text(done) : "");
    return done.listed_failed > 0 ? 1 : 0;
  });
}

std::optional<SweepStudy> sweep_study_of(const po::variables_map& values) {
  const fs::path file = values.count("scenario") > 0 ? shipped_file(values["scenario"].as<std::string>()) : fs::path();
  return fs::is_regular_file(file) ? read_sweep_study(file) : std::nullopt;
}

// The words with the study's scenario in place of the study, and its options where they say nothing of them.
std::vector<std::string> study_words(std::vector<std::string> words, const po::variables_map& values,
                                     const SweepStudy& study) {
  *std::find(words.begin(), words.end(), values["scenario"].as<std::string>()) = study.scenario.string();
  for (const auto& [option, value] : study.options) {
    if (values.count(option) == 0 || values[option].defaulted()) {
      words.push_back("--" + option);
      if (value != "true") {  // a switch takes no value
        words.push_back(value);
      }
    }
  }
  return words;
}

}  // namespace

int sweep_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("vary", po::value<std::vector<std::string>>(),
                        "key=a,b,c: a scenario key and its values; repeatable; every combination runs")(
      "policies", po::value<std::string>(), "policies to run at each combination; default: the scenario's own")(
      "measure", po::value<std::string>()->default_value("run"),
      "run: the figures of `epsim run`; goodput: a search as of `epsim goodput` under one seed")(
      "retry-failed", po::bool_switch(), "run the points again that failed before")(
      "status", po::value<std::string>(), "run nothing; print the progress of the sweep in this folder");
  add_comparison_options(options);
  add_scenario_options(options);
  add_output_options(options);
  add_shard_option(options);
  add_json_option(options, "results, a row for each point, and as they apply intervals, knees, curve and the verdict");
  add_slurm_options(options);
  po::options_description search("options of --measure goodput");
  add_goodput_options(search);
  options.add(search);
  const auto parse = [&](const std::vector<std::string>& all) {
    return parse_words(
        all,
        "epsim sweep SCENARIO.yaml --vary cluster.nodes=4,8 --vary requests.rate=4/s,6/s --policies base,eplb "
        "[options]\n\n"
        "Runs every combination of the values given, under every policy, and gathers their figures in results.csv and\n"
        "results.h5. Each finished point is kept at once: after a kill, rerun the same command to continue. A point\n"
        "that fails is recorded with its error and does not stop the rest; the exit code is then 1.\n"
        "Processes with the same command and folder (-o), on any machines that share it, share the points.\n"
        "With --vary seed=1,2,3, points that differ only in their seed are one row of intervals.csv, with 95 %\n"
        "intervals. With several policies, winners.csv and the map winners.svg name the best one for each "
        "combination:\n"
        "contiguous or base, where one was run (else the first listed), unless another serves over 0.35 % more "
        "requests/s.\n"
        "A file with `axes` in place of SCENARIO.yaml states scenario, axes and options\n"
        "(experiments/static-or-transient/study.yaml).\n",
        options, {"scenario"});
  };
  const auto values = parse(words);
  if (values.count("status") > 0) {
    std::cout << sweep_status(values["status"].as<std::string>());
    return 0;
  }
  if (const auto study = sweep_study_of(values)) {
    return sweep(words, parse(study_words(words, values, *study)), study->axes);
  }
  return sweep(words, values, {});
}

}  // namespace epsim::app
