// Small random serving scenarios, each from a stream of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/rng.h"
#include "tests/support/fakes.h"

namespace epsim::test {

// Costs that depend on the batches and jump about, so that gaps and step lengths differ.
class UnevenPricer : public InstanceModel {
 public:
  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override {
    double seconds = 1e-4 * static_cast<double>(1 + at.number % 7);
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

// Prefix blocks for a random trace, of half the answers too: each request follows the path of an earlier one for a while, then
// its own.
inline PrefixBlocks random_prefixes(RandomStream& random, const RequestTrace& trace, int block_tokens) {
  PrefixBlocks out;
  out.block_tokens = block_tokens;
  out.start.push_back(0);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    const Request& request = trace.requests[i];
    const int answer = random.below(2) == 0 ? 0 : request.output_tokens - 1;
    const auto fills = static_cast<std::size_t>((request.input_tokens + answer) / block_tokens);
    std::vector<std::int32_t> path;
    if (i > 0 && random.below(4) != 0) {
      const auto other = out.of(random.below(i));
      path.assign(other.begin(), other.begin() + static_cast<std::ptrdiff_t>(random.below(other.size() + 1)));
    }
    path.resize(std::min(path.size(), fills));
    while (path.size() < fills && random.below(5) != 0) {
      path.push_back(out.distinct++);
    }
    out.ids.insert(out.ids.end(), path.begin(), path.end());
    out.start.push_back(std::ssize(out.ids));
  }
  return out;
}

// The knobs that every engine has; the pool holds the longest request of random_trace(), and often little more.
inline ServingOptions random_options(RandomStream& random) {
  ServingOptions out;
  out.dp_ranks = static_cast<int>(1 + random.below(4));
  out.token_budget = static_cast<std::int64_t>(1 + random.below(80));
  out.knobs = SglangKnobs{.mixed_chunk = random.below(2) == 0, .reserve_full = true};
  out.max_running_requests = static_cast<int>(random.below(6));
  out.kv_block_tokens = static_cast<int>(1 + random.below(16));
  out.kv_blocks = (72 + out.kv_block_tokens - 1) / out.kv_block_tokens + static_cast<std::int64_t>(random.below(100));
  out.router = random.below(2) == 0 ? Router::kRoundRobin : Router::kLeastTokens;
  out.step_gap = Seconds{1e-5 * static_cast<double>(random.below(3))};
  return out;
}

// Turns the options into those of one of the engines, memory tight as often as not.
inline void choose_engine(RandomStream& random, ServingOptions& options) {
  options.prefix_caching = random.below(4) != 0;
  options.router = random.below(3) == 0 ? Router::kCacheAware : options.router;
  options.kv_blocks = random.below(2) == 0 ? options.kv_blocks : options.kv_blocks - (options.kv_blocks - 72) * 9 / 10;
  options.kv_blocks = std::max<std::int64_t>(options.kv_blocks, 72 / options.kv_block_tokens + 1);
  options.graphs.enabled = random.below(2) == 0;
  options.graphs.sizes = {1, 2, 4, 8};
  options.graphs.size = static_cast<GraphSize>(random.below(2));
  const std::uint64_t engine = random.below(4);
  if (engine == 0) {
    options.engine = "trtllm_1_x";
    options.overlap_schedule = random.below(2) == 0;
    options.max_running_requests = static_cast<int>(1 + random.below(8));
    TrtllmKnobs knobs{.chunked_prefill = random.below(2) == 0,
                      .batch_wait_timeout_iters = static_cast<std::int64_t>(random.below(4)),
                      .batch_wait_max_tokens_ratio = random.uniform()};
    options.token_budget =
        knobs.chunked_prefill ? options.token_budget : std::max<std::int64_t>(options.token_budget, 72);
    options.graphs.prompt_sizes =
        random.below(2) == 0 ? std::vector<std::int64_t>{16, 64} : std::vector<std::int64_t>{};
    options.knobs = knobs;
    return;
  }
  if (engine == 1) {
    options.engine = "vllm_v1";
    options.overlap_schedule = random.below(2) == 0;  // as vllm_0_14
    options.max_running_requests = static_cast<int>(1 + random.below(8));
    options.token_budget = std::max<std::int64_t>(options.token_budget, options.max_running_requests);
    const std::int64_t longest = random.below(2) == 0 ? 0 : static_cast<std::int64_t>(1 + random.below(40));
    options.knobs = VllmKnobs{.long_prefill_token_threshold = longest};
    return;
  }
  options.overlap_schedule = random.below(2) == 0;
  options.receive_interval = random.below(3) == 0 ? static_cast<int>(1 + random.below(9)) : 1;
  options.request_time = Seconds(random.below(3) == 0 ? random.uniform() * 20e-3 : 0);
  SglangKnobs& knobs = sglang(options);
  knobs.max_prefill_tokens = static_cast<std::int64_t>(1 + random.below(200));
  knobs.longest_prefix_first = random.below(2) != 0;
  if (random.below(4) != 0) {
    knobs.reserve_full = false;
    NewTokenRatio& ratio = knobs.ratio;
    ratio.init = random.uniform();
    ratio.min = 0.14 * ratio.init;
    ratio.decay = (ratio.init - ratio.min) / static_cast<double>(1 + random.below(20));
    ratio.clip_tokens = static_cast<std::int64_t>(1 + random.below(20));
    ratio.retract_steps = static_cast<std::int64_t>(1 + random.below(20));
    options.token_budget = std::max<std::int64_t>(options.token_budget, options.kv_block_tokens);
  }
}

}  // namespace epsim::test
