#include "sim/scheduler/decode_set.h"

#include <algorithm>
#include <cstddef>

#include "sim/core/check.h"

namespace epsim {

DecodeSet::DecodeSet(int block_tokens, const SpeculativeOptions& options, Seed seed, std::int32_t rank)
    : options_(options),
      block_tokens_(block_tokens),
      random_(seed, "serving.speculation", static_cast<std::uint64_t>(rank)) {
  EPSIM_CHECK(options.draft_tokens >= 0 && options.acceptance >= 0 && options.acceptance <= 1,
              "speculation proposes tokens and accepts some of them");
}

// Proposed tokens of the sequence's next step.
std::int64_t DecodeSet::proposed(const Member& m) const {
  return std::min<std::int64_t>(options_.draft_tokens, m.left - 1);
}

std::int64_t DecodeSet::accepted(std::int64_t proposed) {
  std::int64_t n = 0;
  while (n < proposed && random_.uniform() < options_.acceptance) {
    ++n;
  }
  return n;
}

void DecodeSet::join(std::int32_t request, std::int64_t context, std::int64_t left, Ticks now) {
  EPSIM_CHECK(left > 0, "a request without tokens to come must not decode");
  members_.push_back({request, context, left, now});
  context_ += context;
  step_tokens_ += 1 + proposed(members_.back());
}

std::int64_t DecodeSet::pages_to_begin() const {
  if (block_tokens_ == 1) {
    return step_tokens_;  // most runs: no division for every sequence and step
  }
  std::int64_t sum = 0;
  for (const Member& m : members_) {
    sum += pages(m.context + 1 + proposed(m)) - pages(m.context);
  }
  return sum;
}

std::int64_t DecodeSet::tokens_to_come(std::int64_t clip) const {
  std::int64_t sum = 0;
  for (const Member& m : members_) {
    sum += std::min(m.left, clip);
  }
  return sum;
}

std::int64_t DecodeSet::advance(Ticks now, GapSamples& gaps, std::vector<std::int32_t>& finished) {
  const auto first_finished = static_cast<std::ptrdiff_t>(finished.size());
  std::int64_t unused = 0, together = 0;
  context_ = step_tokens_ = 0;
  for (Member& m : members_) {
    const std::int64_t tried = proposed(m), made = 1 + accepted(tried);
    if (made < 1 + tried) {
      unused += pages(m.context + 1 + tried) - pages(m.context + made);
      rejected_ += 1 + tried - made;
    }
    together += made - 1;
    gaps.add(now - m.last_token, 1);
    m.context += made;
    m.left -= made;
    m.last_token = now;
    if (m.left == 0) {
      finished.push_back(m.request);
    } else {
      context_ += m.context;
      step_tokens_ += 1 + proposed(m);
    }
  }
  if (together > 0) {
    gaps.add(Ticks{}, together);
  }
  if (std::ssize(finished) > first_finished) {
    std::erase_if(members_, [](const Member& m) { return m.left == 0; });
    std::sort(finished.begin() + first_finished, finished.end());
  }
  return unused;
}

DecodeSet::Member DecodeSet::remove(std::int32_t request) {
  const auto at = std::find_if(members_.begin(), members_.end(), [&](const Member& m) { return m.request == request; });
  EPSIM_CHECK(at != members_.end(), "only a request that decodes can stop decoding");
  const Member member = *at;
  context_ -= member.context;
  step_tokens_ -= 1 + proposed(member);
  members_.erase(at);
  return member;
}

}  // namespace epsim
