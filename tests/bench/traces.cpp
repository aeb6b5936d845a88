// Speed of traces/: loads drawn per step, and readers.
#include <benchmark/benchmark.h>

#include "sim/core/rng.h"
#include "traces/routing/synthetic.h"
#include "traces/routing/window_load_source.h"

namespace epsim {
namespace {

constexpr int kLayers = 58, kExperts = 256, kTopK = 8;  // DeepSeek-R1

LoadWindow skewed_window() {
  LoadWindow window(kLayers, kExperts);
  const std::vector<double> shares = power_law_shares(kExperts, power_law_exponent(kExperts, 8.0));
  for (int l = 0; l < kLayers; ++l) {
    std::copy(shares.begin(), shares.end(), window.layer(l).begin());
  }
  return window;
}

// One iteration is one step of 58 x 256 loads; the bar is 3000 of them in 0.1 s: 33 us.
void draw_step_loads(benchmark::State& state) {
  const WindowLoadSource source(skewed_window(), kTopK, 1.0, Seed{1});
  const std::vector<std::int64_t> tokens(8, 4096);
  StepLoads loads;
  std::int64_t step = 0;
  for (auto _ : state) {
    source.draw(step++, tokens, loads);
    benchmark::DoNotOptimize(loads.per_token.data());
  }
  state.SetItemsProcessed(state.iterations() * kLayers * kExperts);
  state.counters["s_per_3000_steps"] = benchmark::Counter(static_cast<double>(state.iterations()) / 3000.0,
                                                          benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(draw_step_loads)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace epsim
