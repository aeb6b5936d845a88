// The requests of one DP rank that are past their prefill. All decode together: a decode step gives each sequence a
// token, and with a drafter also those of up to `draft_tokens` proposed tokens that are accepted.
//
//   Models : a proposed token is accepted with a fixed probability if all before it were, so that a step yields 1 + a +
//            a^2 + ... tokens of a sequence on average; no more are proposed than a request still wants; the keys and
//            values of rejected tokens leave memory after the step. Tokens of one step are out at the same instant:
//            the first has the gap to the step before, the others a gap of zero.
//   Ignores: the drafter's own time and weights (DeepSeek's MTP: one layer of 61 per proposed token), trees of
//            proposals, acceptance that differs by position or request.
//   Source : Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", ICML 2023, section 3.1 (the
//            i.i.d. acceptance rate alpha); DeepSeek-V3 Technical Report (arXiv 2412.19437), section 5.4.3: MTP with
//            one proposed token, accepted at 85 to 90 %.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/rng.h"
#include "sim/core/units.h"
#include "sim/scheduler/gap_samples.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

class DecodeSet {
 public:
  // Draws come from the stream "serving.speculation" of the rank; without a drafter none are made.
  explicit DecodeSet(int block_tokens = 1, const SpeculativeOptions& options = {}, Seed seed = Seed{0},
                     std::int32_t rank = 0);

  struct Member {
    std::int32_t request;
    std::int64_t context;  // tokens cached before the next decode step
    std::int64_t left;     // tokens to come
    Ticks last_token;
  };

  // A request that got a token at `now` and has `context` tokens cached; `left` more tokens are to come (> 0).
  void join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now);
  // One decode step that ended at `now`. Requests that got their last token are appended to `finished` in order of
  // their number and leave the set; the gaps since each sequence's previous token go to `gaps`. Returns how many of the
  // pages set aside for the step stay unused. O(n).
  std::int64_t advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished);
  // Takes a request out before its time. O(n).
  Member remove(std::int32_t request);

  // In order of joining.
  const std::vector<Member>& members() const { return members_; }
  std::int64_t size() const { return static_cast<std::int64_t>(members_.size()); }
  // Tokens that the sequences bring to their next decode step: one each, and those proposed.
  std::int64_t step_tokens() const { return step_tokens_; }
  // Cached tokens that the sequences read in their next decode step, without the tokens fed in by that step.
  std::int64_t context() const { return context_; }
  // Pages that the next decode step may begin. O(n).
  std::int64_t pages_to_begin() const;
  // Sum over the sequences of min(tokens to come, clip). O(n).
  std::int64_t tokens_to_come(std::int64_t clip) const;
  // Tokens that were brought to a step and then rejected, over all steps.
  std::int64_t rejected() const { return rejected_; }

 private:
  std::int64_t proposed(const Member& m) const;
  std::int64_t accepted(std::int64_t proposed);
  std::int64_t pages(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

  SpeculativeOptions options_;
  int block_tokens_;
  RandomStream random_;
  std::vector<Member> members_;
  std::int64_t step_tokens_ = 0, context_ = 0, rejected_ = 0;
};

}  // namespace epsim
