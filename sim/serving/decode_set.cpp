#include "sim/serving/decode_set.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {

void DecodeSet::join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now) {
  EPSIM_CHECK(left > 0, "a request without tokens to come must not decode");
  heap_.push_back({steps_ + left, context + left, request});
  std::push_heap(heap_.begin(), heap_.end());
  context_ += context;
  if (!cohorts_.empty() && cohorts_.back().at == now) {
    ++cohorts_.back().count;
  } else {
    cohorts_.push_back({now, 1});
  }
}

void DecodeSet::advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) {
  ++steps_;
  context_ += size();
  for (const Cohort& cohort : cohorts_) {
    gaps.add(now - cohort.at, cohort.count);
  }
  while (!heap_.empty() && heap_.front().last_step == steps_) {
    context_ -= heap_.front().last_context;
    finished.push_back(heap_.front().request);
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
  }
  cohorts_.clear();
  if (!heap_.empty()) {
    cohorts_.push_back({now, size()});
  }
}

std::vector<DecodeSet::Member> DecodeSet::members() const {
  std::vector<Member> out;
  out.reserve(heap_.size());
  for (const Sequence& s : heap_) {
    out.push_back({s.request, s.last_step - steps_});
  }
  return out;
}

}  // namespace epsim
