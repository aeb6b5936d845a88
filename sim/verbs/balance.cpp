#include "sim/verbs/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/cluster/run_policy.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/step/step_balance.h"

namespace epsim {
namespace {

BalanceScore score(const Placement& placement, const LoadWindow& window) {
  const std::vector<double> by_layer = balancedness_by_layer(placement, window);
  const auto worst = std::min_element(by_layer.begin(), by_layer.end());
  return {std::accumulate(by_layer.begin(), by_layer.end(), 0.0) / static_cast<double>(by_layer.size()), *worst,
          static_cast<int>(worst - by_layer.begin())};
}

void check_experts(const Scenario& s) {
  refuse_if(s.model.dense(), "model.architecture", fmt::format("{} has no experts to balance.", s.model.name));
}

BalanceRow scored_placement(const Scenario& s, const PreparedInstance& run) {
  LoadWindow even(s.run_window.layers(), s.run_window.experts());
  for (int l = 0; l < even.layers(); ++l) {
    std::fill(even.layer(l).begin(), even.layer(l).end(), 1.0);
  }
  const int copies = run.plan.copies_on_fullest_gpu();
  const bool perfect = run.policy.ceiling == Ceiling::kPerfectBalance;  // of loads that no plan is made from
  return {.copies = copies,
          .memory = run.memory,
          .planned = perfect ? std::nullopt : std::optional(score(run.placement, planning_window(s, run.policy)).mean),
          .scored = score(run.placement, perfect ? even : s.run_window),
          .uneven = run.plan.beyond_even_share() - copies};
}

// A per-step policy plans nothing ahead; what it brings to a GPU in a layer stands in the column of copies. Its buffers
// are those of a run, for as many as it may bring.
BalanceRow scored_steps(const Scenario& s, const PreparedInstance& run) {
  const StepBalance steps = step_balance(s, run.pool, run.policy);
  return {.per_step = true,
          .copies = steps.most_extra,
          .memory = run.memory,
          .scored = {steps.mean, steps.worst, steps.worst_layer}};
}

// With its pool behind a comma, where there are several.
std::string name_of(const BalanceRow& row) {
  return row.pool.empty() ? row.policy : fmt::format("{}, {}", row.policy, row.pool);
}

std::string line(const BalanceRow& row) {
  return fmt::format("{:<16} {:>8} {:>9.3f} {:>8.1f} {:>9} {:>8.3f} {:>8.3f} {:>7}\n", name_of(row),
                     fmt::format("{}{}", row.copies, row.per_step ? "/layer" : ""), to_gib(row.memory.kv_pool),
                     row.memory.extras_loss * 100, row.planned ? fmt::format("{:.3f}", *row.planned) : "-",
                     row.scored.mean, row.scored.worst, row.worst_layer_number);
}

nlohmann::ordered_json json_of(const BalanceRow& row) {
  nlohmann::ordered_json out{{"policy", row.policy},
                             {row.per_step ? "copies_per_gpu_and_layer" : "copies_per_gpu", row.copies},
                             {"kv_pool_gib_per_gpu", to_gib(row.memory.kv_pool)},
                             {"kv_lost_to_copies_share", row.memory.extras_loss},
                             {"balancedness_planned", nullptr},
                             {"balancedness_mean", row.scored.mean},
                             {"balancedness_worst", row.scored.worst},
                             {"worst_layer", row.worst_layer_number}};
  if (!row.pool.empty()) {
    out["pool"] = row.pool;
  }
  if (!row.per_step) {
    out["uneven_experts"] = row.uneven;
  }
  if (row.planned) {
    out["balancedness_planned"] = *row.planned;
  }
  return out;
}

}  // namespace

std::vector<BalanceRow> balance_of(const Scenario& scenario) {
  check_experts(scenario);
  std::vector<BalanceRow> out;
  for (const PolicyChoice& policy : scenario.policies) {
    const Scenario& system = system_of(scenario, policy);
    const PreparedRun prepared = prepare_run(system, policy);
    for (const PreparedInstance& run : prepared.pools) {
      BalanceRow row = run.policy.per_step != nullptr ? scored_steps(system, run) : scored_placement(system, run);
      row.policy = policy.label;
      row.pool = prepared.pools.size() > 1 ? kInstanceRoleNames[static_cast<std::size_t>(run.pool.role)] : "";
      row.worst_layer_number = system.model.moe_layer_numbers()[static_cast<std::size_t>(row.scored.worst_layer)];
      out.push_back(std::move(row));
    }
  }
  return out;
}

std::string balance_text(const Scenario& scenario, const std::vector<BalanceRow>& rows) {
  std::string out = fmt::format("{}: {} on {} GPUs\n", scenario.name, scenario.model.name, all_gpus(scenario)) +
                    "                   copies   KV pool     lost   balancedness: mean / max GPU load\n"
                    "policy              /GPU   GiB/GPU        %   planned   scored    worst   layer\n";
  for (const BalanceRow& row : rows) {
    out += line(row);
  }
  for (const BalanceRow& row : rows) {
    if (row.uneven > 0) {
      out +=
          fmt::format("{} makes no copies: its fullest GPU has {} experts more than an even share, over all layers\n",
                      name_of(row), row.uneven);
    }
  }
  if (std::ranges::any_of(rows, &BalanceRow::per_step)) {
    out +=
        "Policies with copies in each step (/layer: at most, of one layer) are scored on two drawn steps, whose counts "
        "scatter, the others on the mean load.\n";
  }
  return out;
}

std::string balance_json(const Scenario& scenario, const std::vector<BalanceRow>& rows) {
  const nlohmann::ordered_json out{{"format", 1},
                                   {"scenario", scenario.name},
                                   {"policies", mapped(rows, [](const BalanceRow& row) { return json_of(row); })}};
  return out.dump(2) + "\n";
}

}  // namespace epsim
