// Speed of traces/: loads drawn per step, and readers.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sim/core/rng.h"
#include "traces/expert_loads/synthetic.h"
#include "traces/expert_loads/window_load_source.h"
#include "traces/format/trace_file.h"

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

// Load rows of steps of 4096 tokens, from a file; bytes as 4-byte counts in memory.
void read_loads_from_file(benchmark::State& state) {
  constexpr int kRows = 600;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("epsim-bench-" + std::to_string(getpid()) + ".h5");
  {
    TraceInfo info;
    info.experts = kExperts;
    info.top_k = kTopK;
    for (int l = 0; l < kLayers; ++l) {
      info.layer_numbers.push_back(l);
    }
    TraceFileWriter writer(file);
    writer.begin(info, 1);
    const WindowLoadSource source(skewed_window(), kTopK, 1.0, Seed{1});
    StepLoads loads;
    std::vector<double> counts;
    for (int r = 0; r < kRows; ++r) {
      source.draw(r, std::vector<std::int64_t>{4096}, loads);
      counts.assign(loads.per_token.begin(), loads.per_token.end());
      for (double& x : counts) {
        x = std::nearbyint(x * 4096);
      }
      writer.loads({counts, std::vector<std::int64_t>{4096}});
    }
    writer.commit();
  }
  const std::size_t row = std::size_t{kLayers} * kExperts;
  constexpr int kAtOnce = 64;
  std::vector<float> counts(row * kAtOnce);
  std::vector<std::int64_t> tokens(kAtOnce);
  for (auto _ : state) {
    const TraceFile trace(file);
    for (int r = 0; r + kAtOnce <= kRows; r += kAtOnce) {
      trace.read_loads<float>(r, kAtOnce, counts, tokens);
      benchmark::DoNotOptimize(counts.data());
    }
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * (kRows / kAtOnce * kAtOnce) *
                          static_cast<std::int64_t>(row * sizeof(float)));
  state.counters["file_MB"] = static_cast<double>(std::filesystem::file_size(file)) / 1e6;
  std::filesystem::remove(file);
}
BENCHMARK(read_loads_from_file)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
