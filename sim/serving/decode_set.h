// The requests of one DP rank that are past their prefill. All of them decode together, one token each per decode step,
// so a step costs O(1) and O(log n) for each request that ends in it: which decode step a request ends with is known
// when it joins, and the context that they read grows by one token per sequence and step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/core/units.h"
#include "sim/serving/gap_samples.h"

namespace epsim {

class DecodeSet {
 public:
  // A request that got its first token at `now` and has `context` tokens cached; `left` more tokens are to come (> 0).
  void join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now);
  // One decode step that ended at `now`: every sequence got a token. Requests that got their last one are appended to
  // `finished` in order of their number and leave the set; the gaps since each sequence's previous token go to `gaps`.
  void advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished);

  std::int64_t size() const { return static_cast<std::int64_t>(heap_.size()); }
  // Cached tokens that the sequences read in their next decode step, without the token fed in by that step.
  std::int64_t context() const { return context_; }
  // Decode tokens made so far for the request, if it is one of the set (for the audit of a run that was cut short).
  struct Member {
    std::int32_t request;
    std::int64_t left;  // tokens to come
  };
  std::vector<Member> members() const;

 private:
  struct Sequence {
    std::int64_t last_step;     // decode step that makes its last token
    std::int64_t last_context;  // what its context counts once that token is made
    std::int32_t request;
    // For the standard heap functions, which keep the largest on top: the first to end is "largest".
    bool operator<(const Sequence& other) const {
      return last_step != other.last_step ? last_step > other.last_step : request > other.request;
    }
  };
  // Sequences whose latest token came at the same time.
  struct Cohort {
    Ticks at{};
    std::int64_t count = 0;
  };
  std::vector<Sequence> heap_;
  std::vector<Cohort> cohorts_;  // by time; one or two with mixed batches, more while prefill goes first
  std::int64_t steps_ = 0;       // decode steps so far
  std::int64_t context_ = 0;
};

}  // namespace epsim
