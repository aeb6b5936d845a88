#include "sim/scheduler/decode_set.h"

#include <algorithm>
#include <cstddef>

#include "sim/core/check.h"

namespace epsim {

DecodeSet::DecodeSet(int block_tokens, const SpeculativeOptions& options, Seed seed, std::int32_t rank)
    : options_(options),
      block_tokens_(block_tokens),
      random_(seed, "serving.speculation", static_cast<std::uint64_t>(rank)) {
  EPSIM_CHECK(options.draft_tokens == 0 || (options.draft_tokens > 0 && !options.acceptance.empty()),
              "speculation proposes tokens and accepts some of them");
}

// Of the tokens proposed in the sequence's next step, those that it may keep.
std::int32_t DecodeSet::useful(const Member& m) const {
  return std::max(0, std::min(options_.draft_tokens, m.left - 1));
}

std::int32_t DecodeSet::accepted(std::int32_t proposed) {
  std::int32_t n = 0;
  while (n < proposed && random_.uniform() < options_.acceptance_at(n)) {
    ++n;
  }
  return n;
}

void DecodeSet::add(const Member& m) {
  members_.push_back(m);
  context_ += m.context;
  kept_tokens_ += 1 + useful(m);
  spent_ += m.left == 0 ? 1 : 0;
}

void DecodeSet::join(const Member& m) {
  EPSIM_CHECK(m.left > 0 && m.made == 0, "a request without tokens to come must not decode");
  add(m);
}

void DecodeSet::join_made(std::int32_t request, std::int64_t context, std::int32_t left,
                          std::optional<Ticks> last_token) {
  add({request, left, context, last_token.value_or(Ticks{}), 1, true, !last_token});
}

std::int64_t DecodeSet::pages_to_begin() const {
  if (block_tokens_ == 1) {
    return kept_tokens_;  // most runs: no division for every sequence and step
  }
  std::int64_t sum = 0;
  for (const Member& m : members_) {
    sum += pages(m.context + 1 + useful(m)) - pages(m.context);
  }
  return sum;
}

std::int64_t DecodeSet::tokens_to_come(std::int64_t clip) const {
  std::int64_t sum = 0;
  for (const Member& m : members_) {
    sum += std::min(std::int64_t{m.left} + m.made, clip);
  }
  return sum;
}

std::int64_t DecodeSet::advance() {
  std::int64_t unused = 0;
  context_ = kept_tokens_ = spent_ = 0;
  for (Member& m : members_) {
    EPSIM_CHECK(m.made == 0 && m.left > 0, "the tokens of a step are handed out before the next one ends");
    const std::int32_t tried = useful(m);
    m.made = 1 + accepted(tried);
    if (m.made < 1 + tried) {
      unused += pages(m.context + 1 + tried) - pages(m.context + m.made);
    }
    rejected_ += step_tokens_each() - m.made;
    m.context += m.made;
    m.left -= m.made;
    context_ += m.context;
    kept_tokens_ += 1 + useful(m);
    spent_ += m.left == 0 ? 1 : 0;
  }
  return unused;
}

std::int64_t DecodeSet::hand_out(Ticks now, bool in_step, GapSamples& gaps, Handed& out) {
  std::int64_t unused = 0, together = 0, of_decodes = 0;
  for (Member& m : members_) {
    if (m.made == 0) {
      continue;
    }
    if (m.fresh) {
      out.first.push_back(m.request);
    } else {
      gaps.add(now - m.last_token, 1);
    }
    together += m.made - 1;
    if (m.prompt) {
      out.prompts.push_back(m.request);
    }
    if (m.left == 0) {
      out.finished.push_back(m.request);
      of_decodes += m.prompt ? 0 : 1;
      unused += in_step ? pages(m.context + 1) - pages(m.context) : 0;
      context_ -= m.context;
      --kept_tokens_;
    }
    m.last_token = now;
    m.made = 0;
    m.prompt = m.fresh = false;
  }
  if (together > 0) {
    gaps.add(Ticks{}, together);
  }
  if (spent_ > 0) {  // sequences join in the order of their steps: those of prompts stand last
    std::sort(out.finished.begin(), out.finished.begin() + static_cast<std::ptrdiff_t>(of_decodes));
    std::erase_if(members_, [](const Member& m) { return m.left == 0; });
    spent_ = 0;
  }
  return unused;
}

DecodeSet::Member DecodeSet::remove(std::int32_t request) {
  const auto at = std::ranges::find(members_, request, &Member::request);
  EPSIM_CHECK(at != members_.end(), "only a request that decodes can stop decoding");
  const Member member = *at;
  context_ -= member.context;
  kept_tokens_ -= 1 + useful(member);
  spent_ -= member.left == 0 ? 1 : 0;
  members_.erase(at);
  return member;
}

}  // namespace epsim
