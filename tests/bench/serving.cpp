// Speed of the serving loop alone: steps have a fixed price, so that nothing but scheduling is measured.
#include <benchmark/benchmark.h>

#include <span>

#include "sim/cluster/simulate.h"
#include "sim/core/rng.h"
#include "sim/scheduler/sglang_knobs.h"

namespace epsim {
namespace {

class FixedPricer : public InstanceModel {
 public:
  StepCost price(const StepAt&, std::span<const RankBatch>) override {
    StepCost cost;
    cost.total = 100_ms;
    cost.by_part[static_cast<std::size_t>(LayerPart::kExperts)] = cost.total;
    cost.by_origin[static_cast<std::size_t>(Origin::kDeclared)] = cost.total;
    return cost;
  }
};

// Poisson arrivals, exponential lengths around the means of a long-document workload (4096 in, 256 out).
RequestTrace long_documents(int requests, double rate) {
  RandomStream arrivals(Seed{1}, "arrivals"), lengths(Seed{1}, "lengths");
  RequestTrace trace{"bench", {}};
  Seconds at{};
  for (int i = 0; i < requests; ++i) {
    at += Seconds{arrivals.exponential(1 / rate)};
    trace.requests.push_back({to_ticks(at), static_cast<std::int32_t>(lengths.geometric(4096)),
                              static_cast<std::int32_t>(lengths.geometric(256))});
  }
  return trace;
}

void run(benchmark::State& state, const RequestTrace& trace, const ServingOptions& options) {
  std::int64_t steps = 0, requests = 0;
  for (auto _ : state) {
    FixedPricer pricer;
    const RunResult result = simulate(trace, options, pricer, {});
    steps += result.steps;
    requests += result.completed;
    benchmark::DoNotOptimize(result.fingerprint.data());
  }
  state.counters["steps/s"] = benchmark::Counter(static_cast<double>(steps), benchmark::Counter::kIsRate);
  state.counters["requests/s"] = benchmark::Counter(static_cast<double>(requests), benchmark::Counter::kIsRate);
}

ServingOptions options_of(int dp_ranks, bool mixed) {
  ServingOptions out;
  out.dp_ranks = dp_ranks;
  out.knobs = SglangKnobs{.mixed_chunk = mixed, .reserve_full = true};
  out.kv_blocks = 300'000;
  return out;
}

// 100,000 requests on 8 DP ranks, near saturation: 8 prompts of a step's length per 0.1 s step.
void serve_100k(benchmark::State& state) {
  run(state, long_documents(100'000, 70), options_of(8, state.range(0) != 0));
}
BENCHMARK(serve_100k)->Arg(1)->Arg(0)->ArgName("mixed")->Unit(benchmark::kMillisecond);

// 64 DP ranks, each with thousands of running requests: a step visits every one of them, so a visit must be cheap.
void serve_many_running(benchmark::State& state) {
  RequestTrace trace = long_documents(200'000, 1e6);
  for (Request& r : trace.requests) {
    r.input_tokens = 1 + r.input_tokens / 128;
    r.output_tokens *= 8;
  }
  ServingOptions options = options_of(64, true);
  options.kv_blocks = 10'000'000;
  run(state, trace, options);
}
BENCHMARK(serve_many_running)->Unit(benchmark::kMillisecond);

// One rank, one token in and one out: the cost of an arrival, a step and their events.
void serve_single_tokens(benchmark::State& state) {
  RequestTrace trace = long_documents(200'000, 8);
  for (Request& r : trace.requests) {
    r.input_tokens = r.output_tokens = 1;
  }
  ServingOptions options = options_of(1, true);
  options.max_running_requests = 1;
  run(state, trace, options);
}
BENCHMARK(serve_single_tokens)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
