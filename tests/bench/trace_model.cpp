// Speed of routing models: load rows, single tokens, and making a model ready.
#include <benchmark/benchmark.h>

#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/presets.h"
#include "traces/routing_model/token_sampler.h"

namespace epsim {
namespace {

constexpr int kSources = 8;

const std::shared_ptr<const RoutingLaw>& deepseek() {
  static const auto law = std::make_shared<const RoutingLaw>(routing_preset("deepseek-r1-prefill"));
  return law;
}

// One iteration is one step of 58 layers x 8 sources x 256 experts; the bar is 3000 of them in 2 s.
void count_steps(benchmark::State& state) {
  state.counters["s_per_3000_steps"] = benchmark::Counter(static_cast<double>(state.iterations()) / 3000.0,
                                                          benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetItemsProcessed(state.iterations() * 58 * 256 * kSources);
}

void whole_counts_of_a_step(benchmark::State& state) {
  const ModelLoadSource source(deepseek(), false, Seed{1});
  const std::vector<std::int64_t> tokens(kSources, 4096);
  std::vector<float> counts(std::size_t{58} * kSources * 256);
  std::int64_t step = 0;
  for (auto _ : state) {
    source.draw_counts(step++, tokens, counts);
    benchmark::DoNotOptimize(counts.data());
  }
  count_steps(state);
}
BENCHMARK(whole_counts_of_a_step)->Unit(benchmark::kMicrosecond);

void loads_of_a_step(benchmark::State& state) {
  const ModelLoadSource source(deepseek(), false, Seed{1});
  const std::vector<std::int64_t> tokens(kSources, 4096);
  StepLoads loads;
  std::int64_t step = 0;
  for (auto _ : state) {
    source.draw(step++, tokens, loads);
    benchmark::DoNotOptimize(loads.per_token.data());
  }
  count_steps(state);
}
BENCHMARK(loads_of_a_step)->Unit(benchmark::kMicrosecond);

// Sequences of 512 tokens; the bar is 2e7 ids per second.
void token_ids(benchmark::State& state, const char* preset, bool grouped) {
  RoutingModel m = routing_preset(preset);
  if (!grouped) {
    m.expert_groups = m.top_groups = 1;
  }
  const RoutingLaw law(m);
  TokenSampler sampler(law, Seed{1});
  constexpr std::int64_t kTokens = 512;
  std::vector<std::uint16_t> ids(static_cast<std::size_t>(kTokens * law.layers() * law.top_k()));
  std::int64_t sequence = 0;
  for (auto _ : state) {
    sampler.sample(sequence++, kTokens, ids);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(ids.size()));
}
BENCHMARK_CAPTURE(token_ids, olmoe_64_experts, "olmoe", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(token_ids, qwen3_30b_128_experts, "qwen3-30b", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(token_ids, deepseek_r1_no_groups, "deepseek-r1-prefill", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(token_ids, deepseek_r1_4_of_8_groups, "deepseek-r1-prefill", true)->Unit(benchmark::kMillisecond);

void make_ready(benchmark::State& state) {
  const RoutingModel model = routing_preset("deepseek-r1-prefill");
  for (auto _ : state) {
    const RoutingLaw law(model);
    benchmark::DoNotOptimize(law.factors());
  }
}
BENCHMARK(make_ready)->Unit(benchmark::kMillisecond);

void read_preset(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(routing_preset("deepseek-r1-prefill").experts);
  }
}
BENCHMARK(read_preset)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
