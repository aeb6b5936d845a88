#include "sim/app/validate_served.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>

#include "sim/app/command_line.h"
#include "sim/app/results_folder.h"
#include "sim/app/served_guard.h"
#include "sim/app/served_run.h"
#include "sim/app/served_summary.h"
#include "sim/core/files.h"
#include "sim/core/text.h"
#include "sim/report/folder_report.h"
#include "sim/report/format.h"
#include "sim/report/progress.h"
#include "sim/study/study_manifest.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

constexpr const char *kTableLayout = "experiments/served/inferencex.yaml",
                     *kBenchmarkLayout = "experiments/served/bench-serving.yaml";

ServedRequest served_request_of(const po::variables_map& values) {
  ServedRequest out;
  out.table = shipped_file(values["served"].as<std::string>());
  const bool json = is_json_lines(out.table);
  out.layout = read_served_layout(values.count("layout") > 0 ? shipped_file(values["layout"].as<std::string>())
                                                             : own_file(json ? kBenchmarkLayout : kTableLayout));
  if (values.count("scenario") > 0) {
    out.scenario = shipped_file(values["scenario"].as<std::string>());
  } else if (out.layout.scenario) {
    out.scenario = *out.layout.scenario;
  } else {
    throw InputError({},
                     "name the scenario of the deployment that was measured: epsim validate SCENARIO.yaml --served " +
                         out.table.string());
  }
  out.overrides = assignments_of(values);
  if (values.count("seed") > 0) {
    out.overrides.push_back("seed=" + values["seed"].as<std::string>());
  }
  return out;
}

void check_measured(const ServedRequest& request, const std::vector<ServedPoint>& points) {
  const auto is_measured = [](const ServedPoint& point) {
    return std::ranges::any_of(point.measured, [](double figure) { return std::isfinite(figure); });
  };
  if (std::ranges::none_of(points, is_measured)) {
    std::vector<std::string> columns;
    for (const ServedMeasure& measure : request.layout.measured) {
      columns.insert(columns.end(), measure.columns.begin(), measure.columns.end());
    }
    throw InputError({request.table.string(), 0, ""},
                     fmt::format("no row has a measured figure; {} looks for them in {}.",
                                 request.layout.file.filename().string(), fmt::join(columns, ", ")));
  }
}

bool run_with_line(const ServedRequest& request, std::vector<ServedPoint>& points, const fs::path& folder,
                   bool overwrite, bool quiet) {
  std::ofstream nowhere;
  ProgressBoard board(quiet ? static_cast<std::ostream&>(nowhere) : std::cerr,
                      {.terminal = !quiet && isatty(STDERR_FILENO) == 1,
                       .columns = terminal_columns(),
                       .unit = "scenarios",
                       .simulated = false});
  ProgressLine* line = nullptr;
  std::int64_t done = 0;
  ServedControl control;
  control.stop = &interrupted();
  control.overwrite = overwrite;
  control.on_start = [&](std::size_t to_run, std::size_t before) {
    if (before > 0 && !quiet) {
      std::cerr << fmt::format("epsim: {} already finished\n", count_of(before, "scenario"));
    }
    line = &board.add("served", static_cast<std::int64_t>(to_run));
  };
  control.on_run = [&] { line->update(++done, Ticks{}); };
  const bool complete = run_served(request, points, folder, control);
  line->finish(!complete);
  return complete;
}

}  // namespace

void add_served_options(po::options_description& options) {
  options.add_options()("served", po::value<std::string>(),
                        "a table of measured points (CSV), or what sglang.bench_serving or vllm bench serve wrote")(
      "layout", po::value<std::string>(),
      "how its rows become scenarios; default: InferenceX's columns, or the load generators' "
      "(experiments/served/README.md)")("quick", po::bool_switch(),
                                        "one scenario of each group, that with the fewest requests in flight")(
      "against", po::value<std::string>(),
      "errors.csv of an earlier run: ends with exit code 1 when a group's mean error has grown by 2 points and 10 %");
  add_output_options(options);
}

int validate_served(const po::variables_map& values) {
  interrupted();  // from here on, Ctrl-C is ours
  const JsonOutput json(values);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  const ServedRequest request = served_request_of(values);
  std::vector<ServedPoint> points = read_served_points(request.table, request.layout);
  check_measured(request, points);
  check_overrides(request, points);
  std::optional<ServedBefore> before;
  if (values.count("against") > 0) {
    before = read_served_before(shipped_file(values["against"].as<std::string>()));
  }
  if (values["quick"].as<bool>()) {
    points = quick_points(points);
  }
  const ResultsFolder results(values, request.table.stem().string() + "-served",
                              [&](const fs::path& earlier) { return holds_served(earlier, request); });
  if (!run_with_line(request, points, results.path(), values["overwrite"].as<bool>(), values["quiet"].as<bool>())) {
    std::cout << "interrupted: finished scenarios are kept, and rerun the same command to continue\n";
    return kInterrupted;
  }
  const ServedSummary summary = summarise_served(request.layout, points);
  const ResultTable table = served_table(request.layout, points);
  write_file_atomically(results.path() / "points.csv", table_csv(table));
  write_file_atomically(results.path() / "errors.csv", table_csv(served_errors_table(points)));
  write_file_atomically(results.path() / "groups.csv", table_csv(served_groups_table(summary)));
  write_file_atomically(results.path() / "served.json", served_json(summary, table));
  write_file_atomically(results.path() / "report.html", report_of(results.path(), EPSIM_VERSION));
  results.publish();
  std::cout << printable(request.table.filename().string()) << ", read by " << request.layout.file.filename().string()
            << "\n"
            << served_text(summary, table);
  const ServedHeld held = before ? hold_served(*before, points) : ServedHeld{};
  if (before) {
    std::cout << held_text(*before, held);
  }
  std::cout << "\nresults: " << results.path().string() << " (points.csv, errors.csv, groups.csv, report.html)\n";
  json.print(served_json(summary, table));
  return summary.expressed > 0 && held.worse.empty() && held.lost == 0 ? 0 : 1;
}

}  // namespace epsim::app
