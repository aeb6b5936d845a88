// What the serving tests put in the place of a priced cluster, and short ways to say a scenario.
#pragma once

#include <any>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "sim/cluster/instance_model.h"
#include "sim/cluster/kv_lanes.h"
#include "sim/cluster/run_control.h"
#include "sim/cluster/run_result.h"
#include "sim/domain/request_trace.h"
#include "sim/domain/step.h"
#include "sim/scheduler/serving_options.h"
#include "sim/scheduler/sglang_knobs.h"
#include "sim/scheduler/trtllm_knobs.h"
#include "sim/scheduler/vllm_knobs.h"

namespace epsim::test {

inline StepCost declared_cost(Seconds total) {
  StepCost cost;
  cost.total = total;
  cost.by_part[static_cast<std::size_t>(LayerPart::kExperts)] = total;
  cost.by_origin[static_cast<std::size_t>(Origin::kDeclared)] = total;
  return cost;
}

// Every step costs the same. Keeps the batches when asked to.
class FixedPricer : public InstanceModel {
 public:
  explicit FixedPricer(Seconds each, bool keep = false) : each_(each), keep_(keep) {}
  StepCost price(const StepAt&, std::span<const RankBatch> ranks) override {
    if (keep_) {
      batches.emplace_back(ranks.begin(), ranks.end());
    }
    return declared_cost(each_);
  }
  std::vector<std::vector<RankBatch>> batches;  // [step][rank]

 private:
  Seconds each_;
  bool keep_;
};

// Prompts take so long a token on every lane.
class FixedPath final : public KvPath {
 public:
  explicit constexpr FixedPath(double seconds_per_token, double per_prompt = 0)
      : per_token_(seconds_per_token), per_prompt_(per_prompt) {}
  Seconds transfer_time(std::int64_t tokens, bool last, double share) const override {
    return Seconds{1.0 / share * ((last ? per_prompt_ : 0) + per_token_ * static_cast<double>(tokens))};
  }

 private:
  double per_token_, per_prompt_;
};
inline const FixedPath kMsPerToken{1e-3};

// Has a run stop after so many steps.
class StopAfter {
 public:
  explicit StopAfter(std::int64_t steps) {
    control.stop = &stop_;
    control.progress_every_steps = 1;
    control.on_progress = [this, steps](const Progress& p) { stop_ = p.steps >= steps; };
  }
  StopAfter(const StopAfter&) = delete;  // its control points at it
  StopAfter& operator=(const StopAfter&) = delete;
  RunControl control;

 private:
  std::atomic<bool> stop_ = false;
};

inline constexpr Ticks kMs{1'000'000'000};

// One request: arrival in milliseconds, input and output tokens.
struct Row {
  std::int64_t at_ms;
  std::int32_t input, output;
};
inline RequestTrace trace_of(std::initializer_list<Row> rows) {
  RequestTrace out{"test", {}};
  for (const Row& r : rows) {
    out.requests.push_back({r.at_ms * kMs, r.input, r.output});
  }
  return out;
}

inline RequestRecords records_of(std::initializer_list<Row> rows) { return epsim::records_of(trace_of(rows).requests); }

// The engine's own knobs, to be changed.
inline SglangKnobs& sglang(ServingOptions& options) { return std::any_cast<SglangKnobs&>(options.knobs); }
inline VllmKnobs& vllm(ServingOptions& options) { return std::any_cast<VllmKnobs&>(options.knobs); }

// One rank of an engine that reserves all memory, with room for everything unless told otherwise.
inline ServingOptions one_rank(std::int64_t chunk, bool mixed = true) {
  ServingOptions out;
  out.dp_ranks = 1;
  out.knobs = SglangKnobs{.mixed_chunk = mixed, .reserve_full = true};
  out.token_budget = chunk;
  out.kv_blocks = 1'000'000;
  return out;
}

}  // namespace epsim::test
