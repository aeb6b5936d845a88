// Decodes with a drafter: a step checks up to `draft_tokens` proposed tokens of every sequence beside its last one, and
// a sequence gets all that are accepted and one more.
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
#include "sim/scheduler/decode_set.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

class SpeculativeSet final : public Decodes {
 public:
  // Draws come from the stream "serving.speculation" of the rank. A step costs O(n).
  SpeculativeSet(const SpeculativeOptions& options, int block_tokens, Seed seed, std::int32_t rank);

  void join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now) override;
  std::int64_t advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) override;
  std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  std::int64_t step_tokens() const override { return step_tokens_; }
  std::int64_t context() const override { return context_; }
  std::int64_t pages_to_begin() const override;
  std::int64_t tokens_to_come(std::int64_t clip) const override;
  std::int64_t rejected() const override { return rejected_; }
  std::vector<Member> members() const override { return members_; }
  Member remove(std::int32_t request) override;

 private:
  std::int64_t proposed(const Member& m) const;
  std::int64_t accepted(std::int64_t proposed);
  std::int64_t pages(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  void leave(const Member& m);

  SpeculativeOptions options_;
  int block_tokens_;
  RandomStream random_;
  std::vector<Member> members_;  // in order of joining
  std::int64_t step_tokens_ = 0, context_ = 0, rejected_ = 0;
};

}  // namespace epsim
