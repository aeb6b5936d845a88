// Small random serving scenarios, each from a stream of its own.
#pragma once

#include <cstdint>
#include <span>

#include "sim/core/rng.h"
#include "tests/serving/fakes.h"

namespace epsim::test {

// Costs that depend on the batches and jump about, so that gaps and step lengths differ.
class UnevenPricer : public StepPricer {
 public:
  StepCost price(std::int64_t step, std::span<const RankBatch> ranks) override {
    double seconds = 1e-4 * static_cast<double>(1 + step % 7);
    for (const RankBatch& r : ranks) {
      seconds += 1e-6 * static_cast<double>(r.tokens()) +
                 1e-9 * (r.prefill_pairs + r.decode_context + 3 * r.prefill_context) +
                 1e-8 * static_cast<double>(r.sampled);
    }
    StepCost cost;
    cost.total = Seconds{seconds};
    cost.by_part[0] = Seconds{seconds / 4};
    cost.by_part[3] = Seconds{seconds * 3 / 4};
    cost.by_origin[0] = Seconds{seconds / 3};
    cost.by_origin[1] = Seconds{seconds * 2 / 3};
    return cost;
  }
};

inline RequestTrace random_trace(RandomStream& random) {
  RequestTrace trace{"fuzz", {}};
  const std::uint64_t requests = 1 + random.below(40);
  const double spacing = random.below(3) == 0 ? 0.0 : 1e-5 * static_cast<double>(1 + random.below(1000));
  Seconds at{};
  for (std::uint64_t i = 0; i < requests; ++i) {
    at += Seconds{spacing > 0 ? random.exponential(spacing) : 0.0};
    trace.requests.push_back({to_ticks(at), static_cast<std::int32_t>(1 + random.below(60)),
                              static_cast<std::int32_t>(1 + random.below(12))});
  }
  return trace;
}

inline ServingOptions random_options(RandomStream& random) {
  ServingOptions out;
  out.dp_ranks = static_cast<int>(1 + random.below(4));
  out.chunked_prefill_size = static_cast<std::int64_t>(1 + random.below(80));
  out.mixed_chunk = random.below(2) == 0;
  out.max_running_requests = static_cast<int>(random.below(6));
  out.kv_block_tokens = static_cast<int>(1 + random.below(16));
  out.kv_blocks = (72 + out.kv_block_tokens - 1) / out.kv_block_tokens + static_cast<std::int64_t>(random.below(100));
  out.router = random.below(2) == 0 ? Router::kRoundRobin : Router::kLeastTokens;
  out.step_gap = Seconds{1e-5 * static_cast<double>(random.below(3))};
  return out;
}

}  // namespace epsim::test
