// `epsim validate`: checks a scenario, down to whether every plan fits into memory, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sim/app/accuracy.h"
#include "sim/app/command_line.h"
#include "sim/app/results_folder.h"
#include "sim/app/served_guard.h"
#include "sim/app/served_run.h"
#include "sim/app/served_summary.h"
#include "sim/cluster/run_details.h"
#include "sim/cluster/run_policy.h"
#include "sim/cluster/simulate.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"
#include "sim/report/format.h"
#include "sim/report/html_report.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/study_manifest.h"

namespace epsim::app {
namespace {

namespace fs = std::filesystem;

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
  ProgressBoard board = progress_board(quiet, {.unit = "scenarios", .simulated = false});
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

// What the file says was served, beside what the scenario has; "" where it says nothing.
std::string deployment_line(const ServedRequest& request, const ServedPoint& first) {
  std::vector<std::string> said;
  for (std::size_t i = 0; i < request.layout.flags.size(); ++i) {
    const std::string& flag = request.layout.flags[i];
    if (!first.flags[i].empty() &&
        std::ranges::find(request.layout.deployment, flag) != request.layout.deployment.end()) {
      said.push_back(flag + " " + printable(first.flags[i]));
    }
  }
  if (said.empty()) {
    return "";
  }
  Config config = Config::from_file(request.scenario);
  config.set(request.overrides);
  const Scenario scenario = read_scenario(config, {});
  return fmt::format("served, as the file says: {}\nscenario: {} on {}, {}, {}\n", fmt::join(said, ", "),
                     scenario.model.name, count_of(all_gpus(scenario), "GPU"),
                     pools_of(scenario).front().serving.engine,
                     count_of(pools_of(scenario).front().parallelism.dp_ranks(), "DP rank"));
}

// --served, --layout and those of a verb that writes a folder.
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
            << deployment_line(request, points.front()) << served_text(summary, table);
  const ServedHeld held = before ? hold_served(*before, points) : ServedHeld{};
  if (before) {
    std::cout << held_text(*before, held);
  }
  std::cout << "\nresults: " << results.path().string() << " (points.csv, errors.csv, groups.csv, report.html)\n";
  json.print(served_json(summary, table));
  return summary.expressed > 0 && held.worse.empty() && held.lost == 0 ? 0 : 1;
}

constexpr const char* kFacts = "experiments/validation";

void refuse(const po::variables_map& values, std::initializer_list<const char*> options, const char* why) {
  for (const char* option : options) {
    refuse_if(values.count(option) > 0 && !values[option].defaulted(), option, why);
  }
}

int show_accuracy(const std::string& folder, const JsonOutput& json) {
  const AccuracyTable table = compute_accuracy(folder == kFacts ? own_file(folder) : shipped_file(folder));
  std::cout << accuracy_text(table);
  json.print(accuracy_json(table));
  return table.failures() == 0 ? 0 : 1;
}

int validate_scenario(const po::variables_map& values, const JsonOutput& json) {
  nlohmann::ordered_json result{{"format", 1}};
  const Config config = open_scenario(values);
  const Scenario scenario = read_scenario(config, option_list(values, "policies"));
  print_warnings(scenario);
  const NodeSpec& node = scenario.cluster.node;
  const int gpus = all_gpus(scenario);
  std::cout << fmt::format("{}: {} on {}, {} of each {}; {} from {}\n", scenario.name, scenario.model.name,
                           count_of(gpus, "GPU"), node.gpus, node.name,
                           count_of(scenario.requests.requests.size(), "request"), scenario.requests.source);
  for (const InstancePool& pool : scenario.deployment.pools) {
    std::cout << fmt::format("  {} x {} instance of {} x {} GPUs\n", pool.instances,
                             kInstanceRoleNames[static_cast<std::size_t>(pool.role)], pool.cluster.nodes,
                             pool.cluster.node.gpus);
  }
  result["scenario"] = scenario.name;
  result["gpus"] = all_gpus(scenario);
  result["requests"] = scenario.requests.requests.size();
  for (const PolicyChoice& policy : scenario.policies) {
    const PreparedRun prepared = prepare_run(scenario, policy);
    for (const PreparedInstance& pool : prepared.pools) {
      check_requests(scenario.requests, pool.serving);
    }
    const PreparedInstance& run = prepared.last();
    const std::int64_t state = run.serving.kv_blocks_per_request * run.serving.kv_block_tokens;
    std::cout << fmt::format(
        "  {}: fits; KV pool{} {:.3f} GiB per GPU, {} tokens per DP rank{}, {:.1f} % lost to {}\n", policy.label,
        prepared.pools.size() > 1 ? " of decode instances" : "", to_gib(run.memory.kv_pool),
        grouped(run.serving.kv_blocks * run.serving.kv_block_tokens),
        state > 0
            ? fmt::format(" (of which each request takes {} for windows and linear-attention states)", grouped(state))
            : "",
        run.memory.extras_loss * 100,
        extras_words(extra_experts_item(run) == kUnevenExpertsItem, run.plan.copies() > 0, run.buffers > Bytes(0)));
    result["policies"].push_back({{"policy", policy.label},
                                  {"kv_pool_gib_per_gpu", to_gib(run.memory.kv_pool)},
                                  {"kv_tokens_per_dp_rank", run.serving.kv_blocks * run.serving.kv_block_tokens},
                                  {"kv_tokens_of_each_request_state", state},
                                  {"kv_lost_to_copies_share", run.memory.extras_loss}});
  }
  std::cout << "the scenario is valid\n";
  json.print(result.dump(2) + "\n");
  return 0;
}

}  // namespace

int validate_verb(const std::vector<std::string>& words) {
  po::options_description options("options");
  add_scenario_options(options);
  add_json_option(options, "the KV room by policy; with --accuracy and --served, predicted and measured figures");
  options.add_options()("policies", po::value<std::string>(),
                        "policies to plan, separated by commas; default: the scenario's own");
  options.add_options()("accuracy", po::value<std::string>()->implicit_value(kFacts),
                        "instead of a scenario: compare with what the facts.yaml of this folder says was measured");
  po::options_description served("options of --served");
  add_served_options(served);
  options.add(served);
  const auto values = parse_words(
      words,
      "epsim validate SCENARIO.yaml [options]\n"
      "epsim validate --accuracy[=FOLDER]\n"
      "epsim validate [SCENARIO.yaml] --served TABLE [-o FOLDER]\n\n"
      "Reads the scenario and everything it names, plans every policy and checks that the plans and the longest\n"
      "request fit into memory. Runs nothing and writes nothing. With --accuracy: predicts public measurements; exit\n"
      "code 1 when a row is outside its band. With --served: runs a scenario for each row of a table of served "
      "points,\n"
      "and compares predicted with measured figures. Finished runs are kept: after a kill, rerun the same command to\n"
      "continue.\n",
      options, {"scenario"});
  if (values.count("served") > 0) {
    refuse(values, {"accuracy"}, "--accuracy and --served are two tables; ask for one of them.");
    refuse(values, {"policies"}, "--served runs each point with the policy of its scenario (--set policy=...).");
    return validate_served(values);
  }
  refuse(values, {"layout", "output", "quick", "against"}, "this option is for --served.");
  const JsonOutput json(values);
  if (values.count("accuracy") > 0) {
    refuse(values, {"scenario", "policies", "set", "seed"}, "--accuracy runs scenarios of its own; leave this out.");
    return show_accuracy(values["accuracy"].as<std::string>(), json);
  }
  return validate_scenario(values, json);
}

}  // namespace epsim::app
