// CRAFT's algorithmic claims (arXiv 2603.28768) on the shipped workloads E, J, L and A: figures 8 and 9.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "policies/placement/craft/allocation.h"
#include "policies/placement/craft/benefit.h"
#include "policies/plan_tools.h"
#include "sim/domain/load_window.h"
#include "tests/policies/support.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/presets.h"

namespace epsim {
namespace {

// A profiling window of a preset: few batches, as its skew is the popularity's.
LoadWindow window_of(const std::string& preset, int ranks) {
  const auto law = std::make_shared<const RoutingLaw>(routing_preset(preset));
  return window_of_model(law, {.first_step = 0, .steps = 16, .sources = ranks, .tokens = 4096}, true, Seed{1});
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::size_t place_of(const GainTable& table, int copies) {
  return static_cast<std::size_t>(std::find(table.counts.begin(), table.counts.end(), copies) - table.counts.begin());
}

TEST_CASE("C21, Figure 8: beyond 16 copies a layer, twice as many bring under two points, on every workload") {
  for (const char* preset : {"deepseek-r1-e", "deepseek-r1-l", "kimi-k2-j", "kimi-k2-a"}) {
    CAPTURE(std::string(preset));
    const GainTable table = estimate_gains(window_of(preset, 8), CraftLayout::global(64), {});
    const double at16 = mean_of(table.gain[place_of(table, 16)]), at32 = mean_of(table.gain[place_of(table, 32)]);
    CHECK(at32 - at16 < 0.02);
    CHECK(at32 - at16 < at16 / 4);
  }
}

TEST_CASE("C22, Figure 9, DE8: layer 51 gains until 8 to 32 copies, layer 20 next to nothing") {
  const LoadWindow window = window_of("deepseek-r1-e", 8);
  const GainTable table = estimate_gains(window, CraftLayout::global(64), {});
  constexpr std::size_t kFirst = 3;  // dense layers
  const auto curve = [&](std::size_t layer) {
    std::vector<double> gains = {0};
    for (const std::vector<double>& by_layer : table.gain) {
      gains.push_back(by_layer[layer - kFirst]);
    }
    return gains;
  };
  std::vector<int> counts = {0};
  counts.insert(counts.end(), table.counts.begin(), table.counts.end());
  const int last = knee(counts, curve(51));
  CHECK(last >= 8);
  CHECK(last <= 32);
  // The hottest expert alone is 27 / 256 of the load: no placement without copies beats (1 / 64) / (27 / 256) = 0.148.
  CHECK(table.base[51 - kFirst] < 0.16);
  CHECK(curve(51)[place_of(table, 16) + 1] > 0.5);
  // 2.5 times the mean is 2.5 / 4 of what a GPU gets on average: copies have little to mend.
  CHECK(curve(20)[place_of(table, 16) + 1] < 0.25 * curve(51)[place_of(table, 16) + 1]);
}

TEST_CASE("C26, Figure 8: from 6 to 12 nodes balance without copies falls, and copies mend more") {
  for (const char* preset : {"kimi-k2-e", "kimi-k2-j", "kimi-k2-l"}) {
    CAPTURE(std::string(preset));
    const GainTable six = estimate_gains(window_of(preset, 6), CraftLayout::global(48), {});
    const GainTable twelve = estimate_gains(window_of(preset, 12), CraftLayout::global(96), {});
    CHECK(mean_of(twelve.base) < mean_of(six.base));
    CHECK(mean_of(twelve.gain[place_of(twelve, 16)]) > mean_of(six.gain[place_of(six, 16)]));
  }
}

// SGLang's published counts of DeepSeek-R1's prompts, which the preset is fitted to, give 0.53 and 0.985.
TEST_CASE(
    "EPLB on 8 nodes, loads like DeepSeek-R1's measured ones: groups that stay on their nodes halve the balance") {
  const LoadWindow window = window_of("deepseek-r1-prefill", 8);
  const auto balance = [&](const char* mode) {
    const std::string options = std::string("{num_redundant_experts: 64, num_groups: 8, mode: ") + mode + "}";
    const PlacementPlan plan = test::policy("eplb", options)->plan(window, ClusterShape{64, 8});
    double sum = 0;
    for (std::size_t l = 0; l < plan.layers.size(); ++l) {
      const LayerPlan& layer = plan.layers[l];
      const std::vector<int> copies = copies_by_expert(layer, window.experts());
      std::vector<double> loads(64, 0.0);
      for (std::size_t slot = 0; slot < layer.slots.size(); ++slot) {
        const auto expert = static_cast<std::size_t>(layer.slots[slot]);
        loads[slot / (layer.slots.size() / 64)] += window.layer(static_cast<int>(l))[expert] / copies[expert];
      }
      sum += balancedness(loads);
    }
    return sum / static_cast<double>(plan.layers.size());
  };
  CHECK(balance("hierarchical") == doctest::Approx(0.53).epsilon(0.02));
  CHECK(balance("auto") == balance("hierarchical"));
  CHECK(balance("global") == doctest::Approx(0.985).epsilon(0.01));
}

}  // namespace
}  // namespace epsim
