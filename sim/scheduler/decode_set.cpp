#include "sim/scheduler/decode_set.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {

void DecodeSet::join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now) {
  EPSIM_CHECK(left > 0, "a request without tokens to come must not decode");
  heap_.push_back({steps_ + left, context + left, steps_, now, request});
  std::push_heap(heap_.begin(), heap_.end());
  context_ += context;
  last_steps_sum_ += steps_ + left;
  longest_left_ = std::max(longest_left_, left);
  ++page_phase_[phase(context - steps_)];
  if (!cohorts_.empty() && cohorts_.back().at == now) {
    ++cohorts_.back().count;
  } else {
    cohorts_.push_back({now, 1});
  }
}

// Takes a sequence that has `context` tokens cached out of all sums.
void DecodeSet::forget(const Sequence& s, std::int64_t context) {
  context_ -= context;
  last_steps_sum_ -= s.last_step;
  --page_phase_[phase(context - steps_)];
}

std::int64_t DecodeSet::advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) {
  ++steps_;
  last_step_at_ = now;
  context_ += size();
  for (const Cohort& cohort : cohorts_) {
    gaps.add(now - cohort.at, cohort.count);
  }
  while (!heap_.empty() && heap_.front().last_step == steps_) {
    forget(heap_.front(), heap_.front().last_context);
    finished.push_back(heap_.front().request);
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
  cohorts_.clear();
  if (!heap_.empty()) {
    cohorts_.push_back({now, size()});
  }
  return 0;
}

std::int64_t DecodeSet::tokens_to_come(std::int64_t clip) const {
  if (longest_left_ <= clip) {
    return last_steps_sum_ - size() * steps_;
  }
  std::int64_t sum = 0;
  for (const Sequence& s : heap_) {
    sum += std::min(s.last_step - steps_, clip);
  }
  return sum;
}

DecodeSet::Member DecodeSet::member_of(const Sequence& s) const {
  const std::int64_t left = s.last_step - steps_;
  return {s.request, s.last_context - left, left, s.first_step < steps_ ? last_step_at_ : s.joined_at};
}

std::vector<DecodeSet::Member> DecodeSet::members() const {
  std::vector<Member> out;
  out.reserve(heap_.size());
  for (const Sequence& s : heap_) {
    out.push_back(member_of(s));
  }
  return out;
}

DecodeSet::Member DecodeSet::remove(std::int32_t request) {
  const auto at = std::find_if(heap_.begin(), heap_.end(), [&](const Sequence& s) { return s.request == request; });
  EPSIM_CHECK(at != heap_.end(), "only a request that decodes can stop decoding");
  const Member member = member_of(*at);
  forget(*at, member.context);
  const auto cohort = std::find_if(cohorts_.begin(), cohorts_.end(),
                                   [&](const Cohort& c) { return c.at == member.last_token && c.count > 0; });
  EPSIM_CHECK(cohort != cohorts_.end(), "every sequence belongs to a cohort");
  --cohort->count;
  heap_.erase(at);
  std::make_heap(heap_.begin(), heap_.end());
  return member;
}

}  // namespace epsim
