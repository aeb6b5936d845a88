// The requests of one DP rank that are past their prefill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/units.h"
#include "sim/scheduler/gap_samples.h"

namespace epsim {

class Decodes {
 public:
  virtual ~Decodes() = default;
  // A request that got a token at `now` and has `context` tokens cached; `left` more tokens are to come (> 0).
  virtual void join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now) = 0;
  // One decode step that ended at `now`: every sequence got a token, or several. Requests that got their last one are
  // appended to `finished` in order of their number and leave the set; the gaps since each sequence's previous token go
  // to `gaps`. Returns how many of the pages set aside for the step stay unused.
  virtual std::int64_t advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) = 0;

  virtual std::int64_t size() const = 0;
  // Tokens that the sequences bring to their next decode step: one each, unless more are proposed.
  virtual std::int64_t step_tokens() const = 0;
  // Cached tokens that the sequences read in their next decode step, without the tokens fed in by that step.
  virtual std::int64_t context() const = 0;
  // Pages that the next decode step may begin.
  virtual std::int64_t pages_to_begin() const = 0;
  // Sum over the sequences of min(tokens to come, clip).
  virtual std::int64_t tokens_to_come(std::int64_t clip) const = 0;
  // Tokens that were brought to a step and then rejected, over all steps.
  virtual std::int64_t rejected() const { return 0; }

  struct Member {
    std::int32_t request;
    std::int64_t context;  // tokens cached before the next decode step
    std::int64_t left;     // tokens to come
    Ticks last_token;
  };
  // In no particular order; O(n), for what happens rarely.
  virtual std::vector<Member> members() const = 0;
  // Takes a request out before its time. O(n).
  virtual Member remove(std::int32_t request) = 0;
};

// All sequences decode together, one token each per decode step, so a step costs O(1) and O(log n) for each request
// that ends in it: which decode step a request ends with is known when it joins, and the context that they read grows
// by one token per sequence and step. How many sequences begin a new page of KV memory in a step follows from their
// contexts modulo the page, which are counted as they join.
class DecodeSet final : public Decodes {
 public:
  explicit DecodeSet(int block_tokens = 1) : page_phase_(static_cast<std::size_t>(block_tokens)) {}

  void join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now) override;
  std::int64_t advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) override;
  std::int64_t size() const override { return static_cast<std::int64_t>(heap_.size()); }
  std::int64_t step_tokens() const override { return size(); }
  std::int64_t context() const override { return context_; }
  // Sequences whose cached tokens fill their pages.
  std::int64_t pages_to_begin() const override { return page_phase_[phase(-steps_)]; }
  // O(1) while no sequence has had more than `clip` to come.
  std::int64_t tokens_to_come(std::int64_t clip) const override;
  std::vector<Member> members() const override;
  Member remove(std::int32_t request) override;

 private:
  struct Sequence {
    std::int64_t last_step;     // decode step that makes its last token
    std::int64_t last_context;  // what its context counts once that token is made
    std::int64_t first_step;    // decode steps before it joined
    Ticks joined_at;
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
  std::size_t phase(std::int64_t n) const {
    const auto size = static_cast<std::int64_t>(page_phase_.size());
    return static_cast<std::size_t>((n % size + size) % size);
  }
  Member member_of(const Sequence& s) const;
  void forget(const Sequence& s, std::int64_t context);

  std::vector<Sequence> heap_;
  std::vector<Cohort> cohorts_;           // by time; one or two with mixed batches, more while prefill goes first
  std::vector<std::int64_t> page_phase_;  // sequences by (context - decode steps) modulo the page
  std::int64_t steps_ = 0;                // decode steps so far
  Ticks last_step_at_{};
  std::int64_t context_ = 0;
  std::int64_t last_steps_sum_ = 0;  // of Sequence::last_step
  std::int64_t longest_left_ = 0;    // at least the most tokens that any sequence has had to come
};

}  // namespace epsim
