// `epsim run` and `epsim compare`: the main job. The runs are jobs of one study (sim/study/job_runner.h).
#include <fmt/format.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/app/command_line.h"
#include "sim/app/compared_labels.h"
#include "sim/app/recordings.h"
#include "sim/app/results_folder.h"
#include "sim/app/seeds.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/report/ranking.h"
#include "sim/report/run_info.h"
#include "sim/report/tables.h"
#include "sim/report/writer.h"
#include "sim/scenario/compared_policies.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/job_runner.h"
#include "sim/study/store_json.h"
#include "sim/study/study_manifest.h"

namespace epsim {

// Of a run what is compared: not what comes in lists, which is shown of the first seed alone.
template <Is<RunSummary> T>
auto members(T& x) {
  auto& [label, numbers, texts, step_kinds, instances, memory, prefill_memory, warnings, carried_over, prefix_cache] =
      x;
  return std::tie(label, numbers, texts);
}

}  // namespace epsim

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

// Present in every output folder; what --overwrite looks for before it replaces one.
constexpr const char* kMarker = "resolved.yaml";

constexpr StoreKind kCompareStore{"comparison", "study.json", "runs"};
constexpr int kCompareFormat = 1;  // of study.json
constexpr int kSummaryFormat = 2;  // of a run
constexpr int kBadInput = 2;       // exit code, of a step that the run turns out not to have

struct RunSettings {
  bool quiet = false, strict = false;
};

// Runs every policy of the first seed, all of them prepared; a run that was interrupted is marked so in its result. A run
// that is the only one takes its scenario's requests with it. `recorder` may be null, and is for a single policy.
std::vector<RunResult> run_first_seed(std::span<Scenario> by_seed, const std::vector<PreparedRun>& prepared,
                                      const RunSettings& settings, StepRecorder* recorder) {
  Scenario& scenario = by_seed.front();
  const bool alone = by_seed.size() == 1 && prepared.size() == 1;
  ProgressBoard board = progress_board(settings.quiet, {});
  const std::vector<ProgressLine*> lines = mapped(scenario.policies, [&](const PolicyChoice& policy) {
    return &board.add(policy.label, static_cast<std::int64_t>(scenario.requests.requests.size()));
  });
  std::vector<RunResult> results(prepared.size());
  run_jobs(all_jobs(results.size()), {}, [&](std::size_t i, const Abandoned&) {
    RunControl control;
    control.stop = &interrupted();
    control.recorder = recorder;
    control.strict_calibration = settings.strict;
    lines[i]->start();
    control.on_progress = [line = lines[i]](const Progress& p) { line->update(p.completed, p.now); };
    results[i] = alone ? run_prepared(scenario, prepared[i], std::move(scenario.requests), control)
                       : run_prepared(scenario, prepared[i], scenario.requests, control);
    lines[i]->finish(results[i].interrupted);
  });
  return results;
}

// Where the runs under further seeds are kept until the results are there: in a hidden folder beside the one that
// --output names. What it holds of other inputs goes. Null where nothing is kept.
std::unique_ptr<JobStore> store_of_runs(const po::variables_map& values, std::span<const Scenario> by_seed,
                                        const fs::path& target) {
  if (values.count("output") == 0 || by_seed.size() == 1) {
    return nullptr;
  }
  nlohmann::ordered_json inputs = scenario_manifest(kCompareFormat, by_seed.front(), assignments_of(values));
  inputs["strict_calibration"] = values["strict-calibration"].as<bool>();
  const std::string manifest = document_text(inputs);
  const fs::path folder = target.parent_path() / fmt::format(".{}.runs", target.filename().string());
  auto store =
      std::make_unique<JobStore>(folder, kCompareStore, manifest, !holds_study(folder, kCompareStore, manifest));
  if (const std::optional<std::string> other = store->other_worker()) {
    throw InputError(
        {target.string(), 0, ""},
        fmt::format("another process works on this comparison ({}); wait for it, or name another folder.", *other));
  }
  return store;
}

std::vector<std::string> keys_of(std::span<const Scenario> by_seed) {
  std::vector<std::string> out;
  for (const Scenario& scenario : by_seed) {
    for (const PolicyChoice& policy : scenario.policies) {
      out.push_back(fmt::format("{}-{}", policy.label, static_cast<std::uint64_t>(scenario.seed)));
    }
  }
  return out;
}

// Nothing, too, of another table of metrics.
std::optional<RunSummary> stored_summary(const std::string& text) {
  const std::size_t wanted = metrics().size();
  std::optional<RunSummary> out = read_stored<RunSummary>(text, kSummaryFormat);
  return out && out->numbers.size() == wanted && out->texts.size() == wanted ? out : std::nullopt;
}

// Adds the runs under the seeds after the first to `compared`. Of each only its summary is kept. Seeds whose runs were
// interrupted are left out.
void add_other_seeds(std::span<const Scenario> others, const RunSettings& settings, const JobStore* store,
                     PlanCache& plans, Comparison& compared) {
  const std::size_t policies = compared.by_policy.size();
  JobRunner<RunSummary> runner(
      keys_of(others), {store, [](const RunSummary& run) { return store_text(kSummaryFormat, run); }, stored_summary});
  const std::vector<std::size_t> left = runner.left();
  if (const std::size_t before = others.size() * policies - left.size(); before > 0 && !settings.quiet) {
    std::cerr << fmt::format("epsim: {} already finished\n", count_of(before, "run"));
  }
  ProgressBoard board = progress_board(settings.quiet, {.unit = "runs", .simulated = false});
  ProgressLine& line = board.add("other seeds", static_cast<std::int64_t>(left.size()));
  const JobControl jobs{&interrupted(),
                        [&line, done = std::int64_t{0}](std::size_t) mutable { line.update(++done, Ticks{}); }};
  try {
    runner.run(left, jobs, [&](std::size_t i, const Abandoned&) {
      const Scenario& scenario = others[i / policies];
      RunControl control;
      control.stop = &interrupted();
      control.strict_calibration = settings.strict;
      const PreparedRun prepared = prepare_run(scenario, scenario.policies[i % policies], &plans);
      return summarize(whole_run(run_prepared(scenario, prepared, scenario.requests, control)));
    });
  } catch (const StudyInterrupted&) {  // the seeds that are complete count
  }
  line.finish(interrupted());
  for (std::size_t s = 0; s < others.size(); ++s) {
    const std::vector<std::size_t> still = runner.left();
    if (std::none_of(still.begin(), still.end(), [&](std::size_t i) { return i / policies == s; })) {
      compared.seeds.push_back(static_cast<std::uint64_t>(others[s].seed));
      for (std::size_t p = 0; p < policies; ++p) {
        compared.by_policy[p].push_back(*runner[s * policies + p]);
      }
    }
  }
}

Comparison compare_first_seed(const Scenario& scenario, const std::vector<RunResult>& results) {
  Comparison out = one_seed(mapped(results, [](const RunResult& run) { return summarize(run); }),
                            static_cast<std::uint64_t>(scenario.seed));
  out.takes_rate = takes_rate(scenario);
  out.length_key = length_key(scenario);
  out.out_of_reach = out_of_reach(scenario.policies);
  return out;
}

// What the terminal says of the runs.
void print_runs(const Comparison& compared) {
  const TableStyle style{.colour = isatty(STDOUT_FILENO) == 1};
  std::cout << comparison_table(compared, style);
  if (compared.seeds.size() > 1) {
    std::cout << fmt::format("\nDetails of the first of {} seeds, {}:\n", compared.seeds.size(),
                             compared.seeds.front());
  }
  std::vector<std::size_t> shown = shown_policies(compared);
  std::sort(shown.begin(), shown.end());
  for (const std::size_t policy : shown) {
    std::cout << "\n" << run_detail(compared.first_seed(policy), style);
  }
  std::cout << "\n" << conclusion_text(compared);
}

// What could not be told before the runs.
void print_outcome_warnings(const Scenario& scenario, const std::vector<RunResult>& results) {
  for (const RunResult& run : results) {
    for (const std::string& warning : run.warnings) {
      if (std::ranges::find(scenario.warnings, warning) == scenario.warnings.end()) {
        std::cerr << "warning: " << (results.size() > 1 ? run.label + ": " : "") << warning << "\n";
      }
    }
  }
}

int run_and_report(const po::variables_map& values, std::vector<Scenario> by_seed, bool folders_by_label) {
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const RunSettings settings{values["quiet"].as<bool>(), values["strict-calibration"].as<bool>()};
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  const Scenario& scenario = by_seed.front();
  check_timeline(values, scenario);
  print_warnings(scenario);
  PlanCache plans;
  // What does not fit is refused before any run starts.
  const std::vector<PreparedRun> prepared =
      mapped(scenario.policies, [&](const PolicyChoice& policy) { return prepare_run(scenario, policy, &plans); });
  const ResultsFolder results_folder(values, scenario.name);
  const fs::path& target = results_folder.path();
  OutputFolder folder(target, values["overwrite"].as<bool>(), kMarker);
  std::unique_ptr<JobStore> store = store_of_runs(values, by_seed, folder.target());
  Recordings recordings(values, folder.path());
  const RunInfo info = describe_inputs(scenario, EPSIM_VERSION);
  const std::vector<RunResult> results =
      run_first_seed(by_seed, prepared, settings, recordings.all.empty() ? nullptr : &recordings.all);
  Comparison compared = compare_first_seed(scenario, results);
  if (by_seed.size() > 1 && !interrupted()) {
    compared.same_requests = same_requests(by_seed);
    add_other_seeds(std::span(by_seed).subspan(1), settings, store.get(), plans, compared);
  }

  if (folders_by_label) {
    write_comparison_folder(folder.path(), results, compared, info);
  } else {
    write_run(folder.path(), results.front(), compared.first_seed(0), info);
  }
  recordings.finish(folder.path(), results.front());
  folder.commit();
  results_folder.publish();

  print_runs(compared);
  print_outcome_warnings(scenario, results);
  std::cout << "\nresults: " << target.string() << "\n";
  json.print(read_file(target / (folders_by_label ? "comparison.json" : "summary.json")));
  const bool drawn = recordings.print_timeline(results.front(), target);
  if (interrupted()) {
    std::cout << "interrupted: the figures above cover only the seeds and steps that were complete\n"
              << (store ? "finished runs are kept: rerun the same command with --overwrite to continue\n" : "");
    return kInterrupted;
  }
  if (store) {
    const fs::path kept = store->path();
    store.reset();
    remove_study(kept, kCompareStore);
  }
  return drawn ? 0 : kBadInput;
}

}  // namespace

int run_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("timeline", po::value<std::string>(),
                        "N or N:k: draw steps N to N + k as timeline.json, for ui.perfetto.dev; slowest, or "
                        "slowest-prefill, slowest-decode, slowest-mixed: the longest step")(
      "steps", "write steps.csv: one row per step with its kind, tokens, parts, slowest GPU and link");
  add_scenario_options(options);
  add_output_options(options);
  add_calibration_option(options);
  add_json_option(options, "the figures of summary.json");
  const auto values = parse_words(words,
                                  "epsim run SCENARIO.yaml [options]\n\n"
                                  "Runs the scenario under its own `policy` and writes the results to a folder.\n",
                                  options, {"scenario"});
  std::vector<Scenario> one;  // no list in braces: it would keep a second copy of the requests
  one.push_back(read_scenario(open_scenario(values), {}));
  return run_and_report(values, std::move(one), false);
}

int compare_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("policies", po::value<std::string>(), "policies to compare, separated by commas");
  add_seeds_option(options, 1);
  add_comparison_options(options);
  add_scenario_options(options);
  add_output_options(options);
  add_calibration_option(options);
  add_json_option(options, "ranked runs, differences and conclusions, as comparison.json");
  const auto values = parse_words(
      words,
      "epsim compare SCENARIO.yaml --policies base,eplb [options]\n\n"
      "Runs several policies on the same requests and the same routing, ranks them, and writes one folder per policy.\n"
      "With --seeds N, under N seeds: means with 95 % intervals, and differences to the first policy seed by seed. "
      "The\n"
      "folders are then of the first seed; comparison.csv has a row per policy and seed, intervals.csv the intervals.\n"
      "With --output, finished runs under the other seeds are kept: after a kill, rerun the same command to continue.\n"
      "A policy is a name of `epsim list policies` or an entry of the scenario's `policies:` section.\n",
      options, {"scenario"});
  const std::vector<std::string> labels = option_list(values, "policies");
  refuse_if(labels.empty(), "", "name the policies to compare, as in --policies base,eplb");
  const ComparedLabels all = compared_labels(values, labels);
  std::vector<Scenario> by_seed = scenarios_by_seed(values, all.labels, {});
  print_note(values, all.note);
  return run_and_report(values, std::move(by_seed), true);
}

}  // namespace epsim::app
