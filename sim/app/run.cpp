// `epsim run` and `epsim compare`: the main job. Runs are independent, so they go in parallel; results are kept by
// position, so neither the number of threads nor the order in which runs end can show in any file.
#include <fmt/format.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <mutex>

#include "sim/app/command_line.h"
#include "sim/app/inputs.h"
#include "sim/app/recordings.h"
#include "sim/app/results_folder.h"
#include "sim/app/seeds.h"
#include "sim/cluster/run_policy.h"
#include "sim/core/files.h"
#include "sim/report/progress.h"
#include "sim/report/tables.h"
#include "sim/report/writer.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

// Present in every output folder; what --overwrite looks for before it replaces one.
constexpr const char* kMarker = "resolved.yaml";

struct RunSettings {
  std::size_t workers = 1;
  bool quiet = false, strict = false;
};

ProgressOptions progress_options(const RunSettings& settings) {
  return {.terminal = !settings.quiet && isatty(STDERR_FILENO) == 1, .columns = terminal_columns()};
}

// Runs every policy of the scenario; a run that was interrupted is marked so in its result.
// `recorder` may be null, and is for a single policy.
std::vector<RunResult> run_all(const Scenario& scenario, const RunSettings& settings, StepRecorder* recorder) {
  std::ofstream nowhere;
  ProgressBoard board(settings.quiet ? static_cast<std::ostream&>(nowhere) : std::cerr, progress_options(settings));
  std::vector<ProgressLine*> lines;
  for (const PolicyChoice& policy : scenario.policies) {
    lines.push_back(&board.add(policy.label, static_cast<std::int64_t>(scenario.requests.requests.size())));
  }
  std::vector<RunResult> results(scenario.policies.size());
  tbb::parallel_for(std::size_t{0}, results.size(), [&](std::size_t i) {
    RunControl control;
    control.stop = &interrupted();
    control.recorder = recorder;
    control.strict_calibration = settings.strict;
    control.on_progress = [line = lines[i]](const Progress& p) { line->update(p.completed, p.now); };
    results[i] = run_policy(scenario, scenario.policies[i], control);
    lines[i]->finish(results[i].interrupted);
  });
  return results;
}

// Adds the runs under the seeds after the first to `compared`. Of each only its summary is kept. Seeds whose runs were
// interrupted are left out.
void add_other_seeds(std::span<const Scenario> by_seed, const RunSettings& settings, Comparison& compared) {
  const std::size_t policies = compared.by_policy.size(), runs = (by_seed.size() - 1) * policies;
  std::ofstream nowhere;
  ProgressOptions options = progress_options(settings);
  options.unit = "runs";
  options.simulated = false;
  ProgressBoard board(settings.quiet ? static_cast<std::ostream&>(nowhere) : std::cerr, options);
  ProgressLine& line = board.add("other seeds", static_cast<std::int64_t>(runs));
  std::vector<RunSummary> summaries(runs);
  std::mutex turn;
  std::int64_t done = 0;
  tbb::parallel_for(std::size_t{0}, runs, [&](std::size_t i) {
    const Scenario& scenario = by_seed[1 + i / policies];
    RunControl control;
    control.stop = &interrupted();
    control.strict_calibration = settings.strict;
    summaries[i] = summarize(run_policy(scenario, scenario.policies[i % policies], control));
    const std::lock_guard lock(turn);
    line.update(++done, Ticks{});
  });
  line.finish(interrupted());
  for (std::size_t s = 1; s < by_seed.size(); ++s) {
    const auto first = summaries.begin() + static_cast<std::ptrdiff_t>((s - 1) * policies);
    const auto last = first + static_cast<std::ptrdiff_t>(policies);
    if (std::none_of(first, last, [](const RunSummary& run) { return run.flag("interrupted"); })) {
      compared.seeds.push_back(static_cast<std::uint64_t>(by_seed[s].seed));
      for (std::size_t p = 0; p < policies; ++p) {
        compared.by_policy[p].push_back(std::move(first[static_cast<std::ptrdiff_t>(p)]));
      }
    }
  }
}

Comparison compare_runs(std::span<const Scenario> by_seed, const std::vector<RunResult>& first_seed,
                        const RunSettings& settings) {
  std::vector<RunSummary> summaries;
  for (const RunResult& result : first_seed) {
    summaries.push_back(summarize(result));
  }
  Comparison out = one_seed(summaries, static_cast<std::uint64_t>(by_seed.front().seed));
  if (by_seed.size() > 1 && !interrupted()) {
    out.same_requests = same_requests(by_seed);
    add_other_seeds(by_seed, settings, out);
  }
  return out;
}

// What the terminal says of the runs.
void tell_runs(const Comparison& compared) {
  const TableStyle style{.colour = isatty(STDOUT_FILENO) == 1};
  std::cout << comparison_table(compared, style);
  if (compared.seeds.size() > 1) {
    std::cout << fmt::format("\nDetails of the first of {} seeds, {}:\n", compared.seeds.size(),
                             compared.seeds.front());
  }
  for (const std::vector<RunSummary>& by_seed : compared.by_policy) {
    std::cout << "\n" << run_detail(by_seed.front(), style);
  }
  std::cout << "\n" << conclusion_text(compared);
}

int run_and_report(const po::variables_map& values, const std::vector<Scenario>& by_seed, bool folders_by_label) {
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const RunSettings settings{workers_of(values), values["quiet"].as<bool>(), values["strict-calibration"].as<bool>()};
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, settings.workers);
  const Scenario& scenario = by_seed.front();
  print_warnings(scenario);
  for (const PolicyChoice& policy : scenario.policies) {
    prepare_run(scenario, policy);  // a plan that does not fit is told before any run starts
  }
  const ResultsFolder results_folder(values, scenario.name);
  const fs::path& target = results_folder.path();
  OutputFolder folder(target, values["overwrite"].as<bool>(), kMarker);
  Recordings recordings(values, folder.path());
  const RunInfo info = describe_inputs(scenario);
  const std::vector<RunResult> results =
      run_all(scenario, settings, recordings.all.empty() ? nullptr : &recordings.all);
  const Comparison compared = compare_runs(by_seed, results, settings);

  if (folders_by_label) {
    write_comparison_folder(folder.path(), results, compared, info);
  } else {
    write_run(folder.path(), results.front(), info);
  }
  recordings.finish(folder.path(), results.front());
  folder.commit();
  results_folder.publish();

  tell_runs(compared);
  std::cout << "\nresults: " << target.string() << "\n";
  json.print(read_file(target / (folders_by_label ? "comparison.json" : "summary.json")));
  const bool drawn = recordings.tell_timeline(results.front(), target);
  if (interrupted()) {
    std::cout << "interrupted: the figures above cover only the seeds and steps that were complete\n";
    return kInterrupted;
  }
  return drawn ? 0 : 1;
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
  return values ? run_and_report(*values, {read_scenario(open_scenario(*values), {})}, false) : 0;
}

int compare_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("policies", po::value<std::string>(), "policies to compare, separated by commas");
  add_seeds_option(options, 1);
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
      "A policy is a name of `epsim list policies` or an entry of the scenario's `policies:` section.\n",
      options, {"scenario"});
  if (!values) {
    return 0;
  }
  const std::vector<std::string> labels =
      values->count("policies") > 0 ? split_list((*values)["policies"].as<std::string>()) : std::vector<std::string>{};
  if (labels.empty()) {
    throw InputError({}, "name the policies to compare, as in --policies base,eplb");
  }
  return run_and_report(*values, scenarios_by_seed(*values, labels), true);
}

}  // namespace epsim::app
