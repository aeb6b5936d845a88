// The requests of one DP rank that are past their prefill. All decode together: a decode step gives each sequence a
// token, and with a drafter also those of up to `draft_tokens` proposed tokens that are accepted.
//
//   Models : a proposed token is accepted with the probability of its position if all before it were, so that a step yields
//            1 + a + a b + ... tokens of a sequence on average; a request keeps no more than it still wants; the
//            keys and values of rejected tokens leave memory after the step. Tokens of one step are out at the same instant:
//            the first has the gap to the step before, the others a gap of zero. Tokens that a step made can be handed
//            out later: until then a sequence stays, and decodes on even where it needs no more.
//   Ignores: trees of proposals; memory of proposals that a request would not keep; acceptance that differs by request.
//            The drafter's own time is sim/step/drafter.h's.
//   Source : Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", ICML 2023, section 3.1 (the
//            i.i.d. acceptance rate alpha); DeepSeek-V3 Technical Report (arXiv 2412.19437), section 5.4.3: MTP with
//            one proposed token, accepted at 85 to 90 %. Those that the layer makes from its own output fall behind.
#pragma once

#include <cstdint>
#include <optional>
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
    std::int32_t left;      // tokens to come
    std::int64_t context;   // tokens cached before the next decode step
    Ticks last_token;       // handed out; without meaning where `fresh`
    std::int32_t made = 0;  // tokens that a step made and that are not handed out
    bool prompt = false;    // of these, one ended the prompt
    bool fresh = false;     // it is the first of its request
  };

  // A request that has all of its tokens handed out, or none where it is fresh; more are to come.
  void join(const Member& m);
  // A request whose prompt ended with a token that is not handed out; `left` more (>= 0) are to come. `last_token`: of a
  // request that had some before.
  void join_made(std::int32_t request, std::int64_t context, std::int32_t left, std::optional<Ticks> last_token);
  // One decode step has ended; its tokens are not handed out. Returns how many of the pages set aside for the step stay
  // unused. O(n).
  std::int64_t advance();
  // Requests, in the order in which their ranks hand out.
  struct Handed {
    std::vector<std::int32_t> prompts;   // whose prompt ended
    std::vector<std::int32_t> first;     // that got their first token
    std::vector<std::int32_t> finished;  // that got their last token: those of decodes by number, then those of prompts
  };
  // Hands out what has been made. Requests that got their last token leave the set; the gaps since each sequence's
  // previous token go to `gaps`. `in_step`: the set takes part in a step under way. Returns how many of the pages set
  // aside for it nobody will use. O(n).
  std::int64_t hand_out(Ticks now, bool in_step, GapSamples& gaps, Handed& out);
  // Takes a request out before its time. O(n).
  Member remove(std::int32_t request);

  // In order of joining.
  const std::vector<Member>& members() const { return members_; }
  std::int64_t size() const { return static_cast<std::int64_t>(members_.size()); }
  // Tokens that the sequences bring to their next decode step: one each, and those proposed.
  std::int64_t step_tokens() const { return size() * step_tokens_each(); }
  std::int64_t step_tokens_each() const { return 1 + options_.draft_tokens; }
  // Cached tokens that the sequences read in their next decode step, without the tokens fed in by that step.
  std::int64_t context() const { return context_; }
  // Pages that the next decode step may begin. O(n).
  std::int64_t pages_to_begin() const;
  // Sequences that need no more tokens and wait for their last one to be handed out.
  std::int64_t spent() const { return spent_; }
  // Sum over the sequences of min(tokens to hand out, clip). O(n).
  std::int64_t tokens_to_come(std::int64_t clip) const;
  // Tokens that were brought to a step and then rejected, over all steps.
  std::int64_t rejected() const { return rejected_; }

 private:
  void add(const Member& m);
  std::int32_t useful(const Member& m) const;
  std::int32_t accepted(std::int32_t proposed);
  std::int64_t pages(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

  SpeculativeOptions options_;
  int block_tokens_;
  RandomStream random_;
  std::vector<Member> members_;
  std::int64_t kept_tokens_ = 0, context_ = 0, spent_ = 0, rejected_ = 0;
};

}  // namespace epsim
