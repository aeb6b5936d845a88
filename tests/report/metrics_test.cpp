// sim/report/metrics.md defines every column and key that the writers print, and nothing that they do not.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/report/capacity_report.h"
#include "sim/report/csv.h"
#include "sim/report/goodput_writer.h"
#include "sim/report/json.h"
#include "sim/report/metric.h"
#include "sim/report/steps_csv.h"
#include "sim/report/sweep_table.h"
#include "sim/report/winner_map.h"
#include "sim/reproduce/claim.h"
#include "sim/reproduce/paper_folder.h"
#include "tests/report/sample_run.h"
#include "tests/report/sample_study.h"

namespace epsim {
namespace {

using Names = std::set<std::string>;
using Json = nlohmann::ordered_json;

std::vector<std::string> split(const std::string& text, char at) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string part; std::getline(in, part, at);) {
    out.push_back(part);
  }
  return out;
}

void add_keys(const Json& json, Names& names) {
  for (const auto& [key, value] : json.items()) {
    if (json.is_object()) {
      names.insert(key);
    }
    if (value.is_structured()) {
      add_keys(value, names);
    }
  }
}

Comparison two_runs() {
  RunSummary overloaded = summarize(test::sample_run("eplb"));
  overloaded.set("overloaded", true);
  return one_seed(std::vector{summarize(test::sample_run("base")), overloaded});
}

Names json_keys() {
  const RunInfo info{"0.1.0", "s", 1, "", {{"f", 1, "h"}}};
  Names names;
  RunResult rebalanced = test::sample_run();
  rebalanced.rebalance.active = true;
  rebalanced.regroup.changes = 1;
  rebalanced.prefill_memory = rebalanced.memory.items;
  add_keys(Json::parse(summary_json(summarize(rebalanced), info)), names);
  add_keys(Json::parse(comparison_json(two_runs(), info)), names);
  add_keys(Json::parse(goodput_json(test::sample_study(), info)), names);
  add_keys(Json::parse(goodput_json(test::sample_slo_study(1.2), info)), names);
  add_keys(Json::parse(goodput_json(test::sample_branch_study(), info)), names);
  return names;
}

Names csv_columns() {
  Names names;
  const RunResult run = test::sample_run();
  for (const auto write :
       {write_requests_csv, write_layers_csv, write_links_csv, write_gpus_csv, write_layer_gpu_csv,
        write_layer_steps_csv, write_memory_csv, write_rebalances_csv, write_step_kinds_csv, write_series_csv}) {
    std::ostringstream out;
    write(out, run);
    for (const std::string& column : split(split(out.str(), '\n')[0], ',')) {
      names.insert(column);
    }
  }
  std::ostringstream steps;
  { const StepsCsv csv(steps); }
  for (const std::string& column : split(split(steps.str(), '\n')[0], ',')) {
    names.insert(column);
  }
  for (const auto& study : {test::sample_study(), test::sample_slo_study(1.2), test::sample_branch_study()}) {
    for (const ResultTable& table : {goodput_table(study), curve_table(study)}) {
      for (const ResultColumn& column : table.columns) {
        names.insert(column.name);
      }
    }
  }
  names.insert({std::string(kPointColumn), std::string(kErrorColumn)});
  names.insert({"ratio_mean", "ratio_interval95_low", "ratio_interval95_high"});     // of a sweep over seeds
  names.insert({"part", "share", "share_interval95_low", "share_interval95_high"});  // of its gains
  for (const ResultColumn& column : winner_table({}).columns) {
    names.insert(column.name);
  }
  for (const auto write : {write_comparison_csv, write_intervals_csv}) {
    std::ostringstream out;
    write(out, two_runs());
    for (const std::string& column : split(split(out.str(), '\n')[0], ',')) {
      names.insert(column);
    }
  }
  return names;
}

// What a reproduction writes; columns that other files have too are in csv_columns().
Names reproduction_names() {
  Names names;
  ClaimRow row = named_row("C01", "A / B", "1.1x");
  row.moved_by.push_back({"links", "slower", 1, 2});
  add_keys(Json::parse(claims_json(std::vector{row}, {})), names);
  const std::vector<ClaimElsewhere> elsewhere(1);
  add_keys(Json::parse(claims_json({}, {"", "", "", {}, elsewhere})), names);
  std::ostringstream setups, movements;
  write_setups_csv(setups, {}, {});
  write_sensitivity_csv(movements, {});
  for (const std::string& text : {setups.str(), movements.str()}) {
    for (const std::string& column : split(split(text, '\n')[0], ',')) {
      names.insert(column);
    }
  }
  return names;
}

// What a capacity search writes.
Names capacity_names() {
  CapacityPlan plan;
  plan.slo = parse_slo("ttft.p99<1s");
  plan.rate = 5;
  CapacityOption option;
  option.pools = {{{InstanceRole::kWhole, "p5en.48xlarge", 2, 8, "sglang", "fp8", 16}, 3}};
  option.answer.input_tokens = option.answer.output_tokens = 100;
  option.what_ifs.emplace_back();
  plan.study.options = {option};
  plan.study.rows.emplace_back();
  decide(plan);
  Names names;
  add_keys(Json::parse(capacity_json(plan, "1")), names);
  return names;
}

Names defined() {
  Names names;
  for (const Definition& d : definitions()) {
    names.insert(d.name);
  }
  return names;
}

}  // namespace

TEST_CASE("metrics.md defines every CSV column and JSON key") {
  const Names known = defined();
  REQUIRE(known.size() > 50);
  for (const Names& names : {csv_columns(), json_keys(), reproduction_names(), capacity_names()}) {
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(known.count(name) == 1);
    }
  }
}

TEST_CASE("metrics.md defines the sections and changes of the metric table") {
  const auto check_row = [](std::string_view name, std::string_view unit, const std::string& text) {
    CHECK_MESSAGE(std::any_of(definitions().begin(), definitions().end(),
                              [&](const Definition& d) {
                                return d.name == name && d.unit == unit && (text.empty() || d.text == text);
                              }),
                  "metrics.md needs a row of ", name);
  };
  for (const Metric& m : metrics()) {
    if (m.key.change.ends_with("_share")) {
      check_row(m.key.change, "share", "Change of `" + m.name + "`.");
    }
  }
  for (const MetricSection& section : metric_sections()) {
    if (!section.name.empty()) {
      check_row(section.name, "section", "");
    }
  }
}

TEST_CASE("metrics.md defines nothing that no writer prints") {
  const Names columns = csv_columns(), keys = json_keys(), claims = reproduction_names(), capacity = capacity_names();
  for (const std::string& name : defined()) {
    CAPTURE(name);
    CHECK(columns.count(name) + keys.count(name) + claims.count(name) + capacity.count(name) >= 1);
  }
}

TEST_CASE("every column name ends in its unit, or is a number without one, or text") {
  constexpr std::array kUnits = {"_s",   "_ms",   "_us",      "_share", "_tokens",   "_requests", "_GB",
                                 "_gib", "_GBps", "_per_gpu", "_per_s", "_per_rank", "_per_step"};
  const Names plain = {"point",
                       "error",
                       "request",
                       "dp_rank",
                       "state",
                       "layer",
                       "gpu",
                       "link",
                       "busiest",
                       "dispatch_bottleneck",
                       "combine_bottleneck",
                       "rank",
                       "policy",
                       "interrupted",
                       "balancedness_mean",
                       "balancedness_min",
                       "planned_balancedness",
                       "extra_copies",
                       "first_step",
                       "memory_item",
                       "imbalance_of_totals",
                       "busiest_gpu",
                       "assignments",
                       "load_over_mean",
                       "seed",
                       "k",
                       "knee_ratio",
                       "knee_limit",
                       "knee_searched",
                       "knee_interpolated",
                       "knee_steady",
                       "aligned",
                       "saturation_ratio",
                       "slo_goodput_ratio",
                       "ttft_over_idle",
                       "stable",
                       "enough_requests",
                       "steps",
                       "retractions",
                       "retries",
                       "instance",
                       "pool",
                       "step_kind",
                       "step",
                       "sequences",
                       "slowest_gpu",
                       "slowest_link",
                       "rebalanced_after_steps",
                       "outcome",
                       "balancedness_in_place",
                       "balancedness_of_new_plan",
                       "moved_copies",
                       "paid",
                       "fingerprint",
                       "figure",
                       "ratio_mean",
                       "ratio_interval95_low",
                       "ratio_interval95_high",
                       "part",
                       "share",
                       "share_interval95_low",
                       "share_interval95_high",
                       "winner",
                       "gain_mean",
                       "gain_interval95_low",
                       "gain_interval95_high",
                       "over",
                       "not_compared",
                       "mean",
                       "interval95_low",
                       "interval95_high",
                       "difference_mean",
                       "difference_interval95_low",
                       "difference_interval95_high",
                       "slo_holds",
                       "slo_limit",
                       "slo_ratio",
                       "gpu_sent_balance",
                       "gpu_received_balance",
                       "nic_sent_balance",
                       "nic_received_balance",
                       "rows_sent_inside",
                       "rows_received_inside",
                       "rows_sent_outside",
                       "rows_received_outside"};
  for (const std::string& name : csv_columns()) {
    CAPTURE(name);
    const bool has_unit = std::any_of(kUnits.begin(), kUnits.end(), [&](const std::string& unit) {
      return name.size() > unit.size() && name.substr(name.size() - unit.size()) == unit;
    });
    CHECK((has_unit || plain.count(name) == 1));
  }
}

}  // namespace epsim
