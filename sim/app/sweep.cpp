// `epsim sweep`: every combination of given values, each an independent run; goes on after a kill where it stopped.
#include <fmt/format.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "sim/app/command_line.h"
#include "sim/app/goodput_options.h"
#include "sim/app/sweep_run.h"
#include "sim/report/format.h"
#include "sim/report/progress.h"
#include "sim/report/text_table.h"
#include "traces/csv.h"

namespace epsim::app {

namespace po = boost::program_options;
namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMostRowsShown = 40, kMostErrorsShown = 10;

struct Shown {
  const char* column;
  std::vector<std::string> header;
};

// What the terminal shows of a point; results.csv has the rest.
const std::vector<Shown>& shown_columns(SweepMeasure measure) {
  static const std::vector<Shown> run{{"requests_per_s", {"requests", "1/s"}},
                                      {"ttft_mean_ms", {"TTFT mean", "ms"}},
                                      {"itl_mean_ms", {"ITL mean", "ms"}},
                                      {"balancedness_mean", {"balanced-", "ness"}},
                                      {"kv_tokens_per_rank", {"KV per rank", "tokens"}}};
  static const std::vector<Shown> goodput{{"knee_requests_per_s", {"knee", "requests/s"}},
                                          {"knee_limit", {"limit", ""}},
                                          {"knee_ttft_mean_ms", {"TTFT there", "ms"}},
                                          {"saturation_requests_per_s", {"saturation", "requests/s"}},
                                          {"kv_tokens_per_rank", {"KV per rank", "tokens"}}};
  return measure == SweepMeasure::kRun ? run : goodput;
}

std::string cell_text(const ResultColumn& column, const std::string& cell) {
  const std::optional<double> number = column.text ? std::nullopt : parse_number(cell);
  return number ? rounded(*number) : cell.empty() ? "-" : printable(cell);
}

std::string results_table(const SweepRequest& request, const ResultTable& results) {
  TextTable table;
  std::vector<std::size_t> columns;
  const std::size_t lead = 1 + request.axes.size() + (request.policies.empty() ? 0 : 1);
  for (std::size_t c = 0; c < lead; ++c) {
    table.add_column({printable(results.columns[c].name), ""}, c == 0 ? Align::kRight : Align::kLeft);
    columns.push_back(c);
  }
  for (const Shown& shown : shown_columns(request.measure)) {
    const auto found = std::find_if(results.columns.begin(), results.columns.end(),
                                    [&](const ResultColumn& c) { return c.name == shown.column; });
    if (found != results.columns.end()) {  // absent when every point failed
      table.add_column(shown.header);
      columns.push_back(static_cast<std::size_t>(found - results.columns.begin()));
    }
  }
  for (std::size_t r = 0; r < std::min(results.rows.size(), kMostRowsShown); ++r) {
    std::vector<std::string> cells;
    for (const std::size_t c : columns) {
      cells.push_back(c < lead ? printable(results.rows[r][c]) : cell_text(results.columns[c], results.rows[r][c]));
    }
    table.add_row(std::move(cells));
  }
  const std::size_t more = results.rows.size() - std::min(results.rows.size(), kMostRowsShown);
  return table.render(2) + (more > 0 ? fmt::format("  and {} more in results.csv\n", more) : "");
}

std::string failures(const SweepOutcome& done) {
  std::string out;
  std::size_t told = 0;
  for (const SweepPoint& point : done.points) {
    if (!point.error.empty() && told++ < kMostErrorsShown) {
      out += fmt::format("point {} failed: {}\n", point.index, printable(point.error));
    }
  }
  return out + fmt::format("{} of {} points failed; the others are complete\n", done.failed, done.points.size());
}

SweepRequest request_of(const po::variables_map& values) {
  SweepRequest request;
  open_scenario(values);  // its errors first: no file, a file that is not YAML, an override that is no assignment
  request.scenario = values["scenario"].as<std::string>();
  if (values.count("set") > 0) {
    request.overrides = values["set"].as<std::vector<std::string>>();
  }
  if (values.count("seed") > 0) {
    request.overrides.push_back("seed=" + values["seed"].as<std::string>());
  }
  if (values.count("vary") == 0) {
    throw InputError({}, "name what varies, as in --vary requests.rate=4/s,6/s,8/s");
  }
  for (const std::string& text : values["vary"].as<std::vector<std::string>>()) {
    request.axes.push_back(parse_axis(text));
  }
  if (values.count("policies") > 0) {
    request.policies = split_list(values["policies"].as<std::string>());
  }
  const std::string measure = values["measure"].as<std::string>();
  if (measure != "run" && measure != "goodput") {
    throw InputError({"", 0, "measure"}, unknown_name("measure", measure, {"run", "goodput"}));
  }
  request.measure = measure == "run" ? SweepMeasure::kRun : SweepMeasure::kGoodput;
  request.goodput = read_goodput_options(values);
  return request;
}

// Options of a search would be passed over in silence where no search is made.
void refuse_search_options(const po::variables_map& values) {
  po::options_description search;
  add_goodput_options(search);
  for (const auto& option : search.options()) {
    if (values.count(option->long_name()) > 0) {
      throw InputError({"", 0, option->long_name()}, "this option is for --measure goodput.");
    }
  }
}

void check_policies(const std::vector<std::string>& policies) {
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (std::find(policies.begin() + static_cast<std::ptrdiff_t>(i) + 1, policies.end(), policies[i]) !=
        policies.end()) {
      throw InputError({"", 0, "policies"}, fmt::format("{} is named twice.", policies[i]));
    }
  }
}

// Runs the sweep with a line of progress on stderr.
SweepOutcome run_with_progress(const SweepRequest& request, const fs::path& target, SweepControl control, bool quiet) {
  std::ofstream nowhere;
  const bool terminal = !quiet && isatty(STDERR_FILENO) == 1;
  ProgressBoard board(quiet ? static_cast<std::ostream&>(nowhere) : std::cerr,
                      {.terminal = terminal, .columns = terminal_columns(), .unit = "points", .simulated = false});
  ProgressLine* line = nullptr;
  std::int64_t done = 0;
  control.on_start = [&](std::size_t to_run, std::size_t before) {
    if (before > 0 && !quiet) {
      std::cerr << fmt::format("epsim: {} points were finished before\n", before);
    }
    line = &board.add("sweep", static_cast<std::int64_t>(to_run));
  };
  control.on_point = [&](const SweepPoint&) { line->update(++done, Ticks{}); };
  SweepOutcome out = run_sweep(request, target, control);
  line->finish(out.interrupted);
  return out;
}

int sweep(const po::variables_map& values) {
  interrupted();  // from here on, Ctrl-C is ours
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, workers_of(values));
  const SweepRequest request = request_of(values);
  if (request.measure == SweepMeasure::kRun) {
    refuse_search_options(values);
  }
  check_policies(request.policies);
  const fs::path target = values.count("output") > 0 ? fs::path(values["output"].as<std::string>())
                                                     : fs::path("out") / (request.scenario.stem().string() + "-sweep");
  SweepControl control;
  control.overwrite = values["overwrite"].as<bool>();
  control.retry_failed = values["retry-failed"].as<bool>();
  control.stop = &interrupted();
  const SweepOutcome done = run_with_progress(request, target, control, values["quiet"].as<bool>());
  if (done.interrupted) {
    std::cout << "interrupted: finished points are kept, and the same command goes on from there\n";
    return kInterrupted;
  }
  std::cout << results_table(request, done.tables.front()) << "\nresults: " << target.string() << "\n";
  if (done.failed > 0) {
    std::cout << failures(done);
    return 1;
  }
  return 0;
}

}  // namespace

int sweep_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  options.add_options()("vary", po::value<std::vector<std::string>>(),
                        "key=a,b,c: a value of the scenario and what it takes; repeatable, every combination is run")(
      "policies", po::value<std::string>(), "policies to run at each combination; default: the scenario's own")(
      "measure", po::value<std::string>()->default_value("run"),
      "run: the figures of `epsim run`; goodput: a search as of `epsim goodput` under one seed")(
      "retry-failed", po::bool_switch(), "run the points again that failed before");
  add_scenario_options(options);
  add_output_options(options);
  po::options_description search("options of --measure goodput");
  add_goodput_options(search);
  options.add(search);
  const auto values = parse_words(
      words,
      "epsim sweep SCENARIO.yaml --vary cluster.nodes=4,8 --vary requests.rate=4/s,6/s --policies base,eplb "
      "[options]\n\n"
      "Runs every combination of the values given, under every policy, and gathers their figures in results.csv and\n"
      "results.h5. Each finished point is kept at once: after a kill the same command goes on where it stopped. A "
      "point\n"
      "that fails is recorded with its error and does not stop the rest; the exit code is then 1.\n",
      options, {"scenario"});
  return values ? sweep(*values) : 0;
}

}  // namespace epsim::app
