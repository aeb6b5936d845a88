// `epsim balance`: does a plan made from one window of loads still balance another, and what does it cost in KV cache?
// Not a measurement: no request is served and nothing is priced.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "sim/app/command_line.h"
#include "sim/cluster/run_policy.h"
#include "sim/scenario/read_scenario.h"
#include "sim/step/step_balance.h"

namespace epsim::app {
namespace {

struct Score {
  double mean = 0, worst = 1;
  int worst_layer = 0;  // MoE layer
};

Score score(const Placement& placement, const LoadWindow& window) {
  const std::vector<double> by_layer = balancedness_by_layer(placement, window);
  const auto worst = std::min_element(by_layer.begin(), by_layer.end());
  return {std::accumulate(by_layer.begin(), by_layer.end(), 0.0) / static_cast<double>(by_layer.size()), *worst,
          static_cast<int>(worst - by_layer.begin())};
}

struct Row {
  std::string policy;
  bool per_step = false;
  int copies = 0;  // per GPU; of a per-step policy those brought to one GPU in one layer
  MemoryBreakdown memory;
  std::optional<double> planned;  // balancedness on the planning window
  Score scored;
};

std::string line(const Scenario& s, const Row& row) {
  return fmt::format("{:<16} {:>8} {:>9.3f} {:>8.1f} {:>9} {:>8.3f} {:>8.3f} {:>7}\n", row.policy,
                     fmt::format("{}{}", row.copies, row.per_step ? "/step" : ""), to_gib(row.memory.kv_pool),
                     row.memory.copies_loss * 100, row.planned ? fmt::format("{:.3f}", *row.planned) : "-",
                     row.scored.mean, row.scored.worst,
                     s.model.moe_layer_numbers()[static_cast<std::size_t>(row.scored.worst_layer)]);
}

nlohmann::ordered_json json_of(const Scenario& s, const Row& row) {
  nlohmann::ordered_json out{
      {"policy", row.policy},
      {row.per_step ? "copies_per_gpu_and_step" : "copies_per_gpu", row.copies},
      {"kv_pool_gib_per_gpu", to_gib(row.memory.kv_pool)},
      {"kv_lost_to_copies_share", row.memory.copies_loss},
      {"balancedness_planned", nullptr},
      {"balancedness_mean", row.scored.mean},
      {"balancedness_worst", row.scored.worst},
      {"worst_layer", s.model.moe_layer_numbers()[static_cast<std::size_t>(row.scored.worst_layer)]}};
  if (row.planned) {
    out["balancedness_planned"] = *row.planned;
  }
  return out;
}

Row scored_placement(const Scenario& s, const PolicyChoice& policy) {
  const PreparedRun prepared = prepare_run(s, policy);
  const PreparedInstance& run = prepared.last();
  LoadWindow even(s.run_window.layers(), s.run_window.experts());
  for (int l = 0; l < even.layers(); ++l) {
    std::fill(even.layer(l).begin(), even.layer(l).end(), 1.0);
  }
  const Score planned = score(run.placement, planning_window(s, policy));
  return {policy.label,
          false,
          std::max(0, run.plan.copies_on_fullest_gpu()),
          run.memory,
          planned.mean,
          score(run.placement, policy.ceiling == Ceiling::kPerfectBalance ? even : s.run_window)};
}

// A per-step policy plans nothing ahead; what it brings to a GPU in a layer stands in the column of copies.
Row scored_steps(const Scenario& s, const PolicyChoice& policy) {
  const StepBalance steps = step_balance(s, policy);
  MemoryOptions options = s.memory;
  options.resident_extra = buffer_bytes(s.model, s.cluster.gpus(), *policy.per_step, steps.most_extra);
  const std::vector<std::int64_t> resident(
      static_cast<std::size_t>(s.cluster.gpus()),
      static_cast<std::int64_t>(s.model.moe_layers()) * s.model.experts / s.cluster.gpus());
  MemoryBreakdown memory = memory_breakdown(s.model, s.cluster, s.parallelism, options, resident);
  const Bytes without = memory_breakdown(s.model, s.cluster, s.parallelism, s.memory, resident).kv_pool;
  memory.copies_loss = 1.0 - memory.kv_pool / without;  // here: what the buffers take
  return {policy.label, true,         static_cast<int>(steps.most_extra),
          memory,       std::nullopt, {steps.mean, steps.worst, steps.worst_layer}};
}

}  // namespace

int balance_verb(const std::vector<std::string>& words) {
  boost::program_options::options_description options("options");
  options.add_options()("policies", boost::program_options::value<std::string>()->default_value(""),
                        "policies to compare, separated by commas; default: the scenario's own");
  add_scenario_options(options);
  add_json_option(options, "copies, KV room and balancedness by policy");
  const auto values = parse_words(
      words,
      "epsim balance SCENARIO.yaml --policies base,eplb,craft [options]\n\n"
      "Plans every policy on the scenario's `plan_loads` and scores the plans on its `loads` (their mean): "
      "balancedness is\n"
      "mean / max GPU load, 1 = perfect. Serves no request; `epsim compare` tells what balance is worth in time.\n"
      "Policies that act in every step are scored on two drawn steps of full prefill chunks, with predictions as "
      "good as\n"
      "their `accuracy` and `distortion` say; their copies are those brought to one GPU in one layer.\n",
      options, {"scenario"});
  if (!values) {
    return 0;
  }
  const JsonOutput json(*values);
  const Config config = open_scenario(*values);
  const Scenario scenario = read_scenario(config, split_list((*values)["policies"].as<std::string>()));
  std::cout << fmt::format("{}: {} on {} GPUs\n", scenario.name, scenario.model.name, scenario.cluster.gpus())
            << "                   copies   KV pool     lost   balancedness: mean / max GPU load\n"
               "policy              /GPU   GiB/GPU        %   planned   scored    worst   layer\n";
  nlohmann::ordered_json rows;
  for (const PolicyChoice& policy : scenario.policies) {
    const Scenario& system = system_of(scenario, policy);
    const Row row = policy.per_step != nullptr ? scored_steps(system, policy) : scored_placement(system, policy);
    std::cout << line(system, row);
    rows.push_back(json_of(system, row));
  }
  json.print(nlohmann::ordered_json{{"format", 1}, {"scenario", scenario.name}, {"policies", rows}}.dump(2) + "\n");
  return 0;
}

}  // namespace epsim::app
