#include "sim/reproduce/craft_describe.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>

namespace epsim {
namespace {

std::vector<LayerPopularity> skew_of(const LoadWindow& window, const MoeSpec& model) {
  std::vector<LayerPopularity> out;
  for (int l = 0; l < window.layers(); ++l) {
    std::vector<double> row(window.layer(l).begin(), window.layer(l).end());
    std::partial_sort(row.begin(), row.begin() + 2, row.end(), std::greater<>());
    const double total = window.total(l);
    out.push_back({model.moe_layer_numbers()[static_cast<std::size_t>(l)], row[0] * window.experts() / total,
                   (row[0] + row[1]) / total});
  }
  return out;
}

}  // namespace

std::vector<double> balancedness_in_order(const LoadWindow& window, int gpus) {
  std::vector<int> experts(static_cast<std::size_t>(window.experts()));
  std::iota(experts.begin(), experts.end(), 0);
  const LayerPlan plan = uniform_layer(std::move(experts), gpus);
  std::vector<double> out;
  for (int l = 0; l < window.layers(); ++l) {
    out.push_back(replay(window, l, {&plan, 1}, {}).front());
  }
  return out;
}

LoadWindow summed(const LoadWindow& window) {
  LoadWindow out(window.layers(), window.experts());
  for (int l = 0; l < out.layers(); ++l) {
    std::copy(window.layer(l).begin(), window.layer(l).end(), out.layer(l).begin());
  }
  return out;
}

void describe_window(const Scenario& s, SetupEvidence& out) {
  out.experts = s.model.experts;
  out.gpus = s.cluster.gpus();
  out.moe_layers = s.model.moe_layers();
  out.skew = skew_of(s.plan_window, s.model);
  out.batches = s.plan_window.batches();
  out.resolved = s.resolved;
  const auto from = std::chrono::steady_clock::now();
  out.gains = estimate_gains(s.plan_window, CraftLayout::global(out.gpus), {});
  out.estimate_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  out.in_order = balancedness_in_order(s.plan_window, out.gpus);
}

void describe_plan(const PreparedInstance& run, const LoadWindow& window, PolicyEvidence& out) {
  out.copies_per_gpu = run.plan.copies_on_fullest_gpu();
  out.kv_lost = run.memory.copies_loss;
  out.kv_pool_gib = to_gib(run.memory.kv_pool);
  out.planned = balancedness_by_layer(run.placement, window);
}

}  // namespace epsim
