// The extension point for policies that act anew in every layer of every step: what to copy, and who computes what.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "policies/residency.h"
#include "sim/core/config.h"
#include "sim/core/key.h"

namespace epsim {

// What such a policy asks of the engine besides its decisions. Declared here so that a step can be priced: nothing in
// policies/ knows a clock.
struct ExecutionProfile {
  enum class Dispatch { kAllToAll, kAllGather };
  // What GPUs tell each other ahead of the decision: the ids of the chosen experts, their counts added up, or nothing.
  enum class Tells { kIds, kCounts, kNothing };
  Tells tells = Tells::kIds;
  Dispatch dispatch = Dispatch::kAllToAll;  // all-gather: every GPU receives every token, combine by reduce-scatter
  bool two_stage = false;                   // local tokens are computed while the others are planned and gathered
  bool plans_before_dispatch = false;       // a host-side plan stands between gate and dispatch
  bool copies_on_demand = false;            // weights move after the routing is known, not ahead of it
  bool copies_before_dispatch = false;      // the same, and tokens leave when they have arrived
  bool copies_from_host = false;            // weights come from the host's memory over each GPU's own link to it
  int resident_buffers = 0;                 // sets of (experts / GPUs + extra) expert weights held for double buffering
  int extra_experts = 0;                    // away from home on one GPU at most, where that is bounded ahead
  bool predicts_on_gpu = false;             // the next layer's gate runs in this layer, to predict
  bool uses_prediction = false;             // the decision depends on what is predicted for the layer
  bool broadcasts = false;                  // copies go to all GPUs along a ring, not from the home to each
  std::int64_t least_tokens = 0;            // of a GPU, on average; steps of fewer are left alone (kPrefillTokensKey)
  static constexpr int kAsOwnExperts = -1;
  int slots = 0;  // for copies on every GPU, used by one layer after the other; or as many as experts at home on a GPU
  bool starts_from_copies = false;  // experts may lie on several GPUs before anything is decided
  bool draws_copies = false;        // a token takes any copy by its share, be it on its own GPU or not
  bool dispatches_shared = false;   // the shared expert is computed where StepDecision::shared has it
  double assumed_hidden = 0;        // width of the model in a cost model of the policy's own; 0: it has none
};

// Weights of an expert that a GPU needs in a layer though the expert is at home elsewhere.
struct ExpertCopy {
  int expert = 0, gpu = 0;
  int from = -1;  // the GPU that passes them on; -1: the home
};

// Where the tokens of each GPU have their shared expert computed.
struct SharedDispatch {
  std::vector<double> share;  // [source][GPU], of the source's tokens; a source's sum to 1. Empty: where they live
  bool only_visited = true;   // a token goes with it to GPUs alone that it goes to anyway: no row more
};

// What one layer of one step comes to.
struct StepDecision {
  TokenAssignment tokens;          // every request computed exactly once
  int most_extra = 0;              // experts held away from home on the fullest GPU: weights that had to move there
  std::vector<ExpertCopy> copies;  // all of them, by expert and GPU
  SharedDispatch shared = {};      // of policies that dispatch the shared expert
  bool planned = true;             // false: the step is none for the policy, and nobody told or planned anything
};

// `requests` is the true routing, `predicted` what was known of it when copies had to start: all zeros where nothing was,
// and then a policy that copies ahead of the routing copies nothing. `home` holds every expert
// once, or with `starts_from_copies` at least once. Equal arguments give equal decisions; no clock, no I/O; const and
// safe to call from several threads.
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

// Whether the layer is run otherwise than without the policy.
bool acts(const ExecutionProfile& profile, const StepDecision& decision, const Residency& home);

// Every token computed at its expert's home: where decisions that copy experts begin. hand_over() moves tokens of an
// expert from its home to a GPU that gets a copy.
StepDecision all_at_home(const RequestMatrix& requests, const Residency& home);
void hand_over(StepDecision& decision, const Residency& home, int expert, int gpu, std::int64_t tokens);

// Of policies that copy experts over links within a step. UltraEP is for prefill; that 1024 tokens are one is a
// judgement.
inline constexpr Key kPrefillTokensKey{"prefill_tokens", key::whole(), key::is(1024),
                                       "Tokens of a GPU, on average, below which a step is left alone."};
inline constexpr KeyTable kPrefillTokensKeys({kPrefillTokensKey});

// Such a policy: once GPUs know the counts it plans, copies arrive in `slots` (as in ExecutionProfile), then tokens leave.
class TransientCopies : public StepPolicy {
 public:
  TransientCopies(ConfigReader& in, int slots)
      : slots_(slots), prefill_tokens_(in.read<std::int64_t>(kPrefillTokensKey)) {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override;
  ExecutionProfile profile() const final;

 protected:
  const int slots_;

 private:
  // Hands tokens over from experts' homes, where all of them are at first.
  virtual void balance(const RequestMatrix& requests, const Residency& home, StepDecision& decision) const = 0;

  std::int64_t prefill_tokens_;
};

// The decision to compute `tokens` with all that `held` has away from home copied there.
StepDecision with_copies_of(const Residency& held, TokenAssignment tokens);
// The same with the experts that `tokens` has computed away from home, each brought there.
StepDecision with_needed_copies(const Residency& home, TokenAssignment tokens);

}  // namespace epsim
