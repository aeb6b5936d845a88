// The extension point for policies that act anew in every layer of every step: what to copy, and who computes what.
#pragma once

#include <memory>
#include <vector>

#include "policies/residency.h"
#include "sim/core/config.h"

namespace epsim {

// What such a policy asks of the engine besides its decisions. Declared here so that a step can be priced: nothing in
// policies/ knows a clock.
struct ExecutionProfile {
  enum class Dispatch { kAllToAll, kAllGather };
  Dispatch dispatch = Dispatch::kAllToAll;  // all-gather: every GPU receives every token, combine by reduce-scatter
  bool two_stage = false;                   // local tokens are computed while the others are planned and gathered
  bool plans_before_dispatch = false;       // a host-side plan stands between gate and dispatch
  bool copies_on_demand = false;            // weights move after the routing is known, not ahead of it
  int resident_buffers = 0;                 // sets of (experts / GPUs + extra) expert weights held for double buffering
  int extra_experts = 0;                    // away from home on one GPU at most, where that is bounded ahead
  bool predicts_on_gpu = false;             // the next layer's gate runs in this layer, to predict
  bool broadcasts = false;                  // copies go to all GPUs along a ring, not from the home to each
};

// Weights of an expert that a GPU needs in a layer though the expert is at home elsewhere.
struct ExpertCopy {
  int expert = 0, gpu = 0;
};

// What one layer of one step comes to.
struct StepDecision {
  TokenAssignment tokens;          // every request computed exactly once
  int most_extra = 0;              // experts held away from home on the fullest GPU: weights that had to move there
  std::vector<ExpertCopy> copies;  // all of them, by expert and GPU
};

// `requests` is the true routing, `predicted` what was known of it when copies had to start; `home` holds every expert
// once. Equal arguments give equal decisions; no clock, no I/O; const and safe to call from several threads.
class StepPolicy {
 public:
  virtual ~StepPolicy() = default;
  virtual StepDecision decide(const RequestMatrix& requests, const RequestMatrix& predicted,
                              const Residency& home) const = 0;
  virtual ExecutionProfile profile() const = 0;
};

// What a policy's entry has as its factory.
template <class Policy>
std::unique_ptr<StepPolicy> make_policy(ConfigReader& options) {
  return std::make_unique<Policy>(options);
}

// The decision to compute `tokens` with all that `held` has away from home copied there.
StepDecision with_copies_of(const Residency& held, TokenAssignment tokens);
// The same with the experts that `tokens` has computed away from home, each brought there.
StepDecision with_needed_copies(const Residency& home, TokenAssignment tokens);

}  // namespace epsim
