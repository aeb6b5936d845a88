#include "policies/step_policy.h"

#include <algorithm>
#include <utility>

namespace epsim {
namespace {

// A copy of every expert on every GPU that is not its home and that `needs` it.
template <class Needs>
StepDecision decision(const Residency& home, TokenAssignment tokens, Needs needs) {
  StepDecision out{.tokens = std::move(tokens), .copies = {}};
  std::vector<int> extra(static_cast<std::size_t>(home.gpus), 0);
  for (int e = 0; e < home.experts(); ++e) {
    for (int g = 0; g < home.gpus; ++g) {
      if (home.home_of(e) != g && needs(out.tokens, e, g)) {
        out.copies.push_back({e, g});
        out.most_extra = std::max(out.most_extra, ++extra[static_cast<std::size_t>(g)]);
      }
    }
  }
  return out;
}

// Puts copies in order and counts them.
void settle_copies(StepDecision& decision) {
  std::sort(decision.copies.begin(), decision.copies.end(), [](const ExpertCopy& a, const ExpertCopy& b) {
    return std::pair(a.expert, a.gpu) < std::pair(b.expert, b.gpu);
  });
  std::vector<int> extra(static_cast<std::size_t>(decision.tokens.gpus), 0);
  for (const ExpertCopy& copy : decision.copies) {
    decision.most_extra = std::max(decision.most_extra, ++extra[static_cast<std::size_t>(copy.gpu)]);
  }
}

}  // namespace

bool acts(const ExecutionProfile& profile, const StepDecision& decision, const Residency& home) {
  const bool always = (profile.starts_from_copies && home.has_copies()) || profile.two_stage;
  return decision.planned && (always || !decision.copies.empty() || !decision.shared.share.empty());
}

StepDecision all_at_home(const RequestMatrix& requests, const Residency& home) {
  StepDecision out{.tokens = TokenAssignment(home.gpus, home.experts()), .copies = {}};
  for (int g = 0; g < home.gpus; ++g) {  // as both matrices lie in memory
    for (int e = 0; e < home.experts(); ++e) {
      out.tokens.at(home.home_of(e), e) += requests.at(g, e);
    }
  }
  return out;
}

void hand_over(StepDecision& decision, const Residency& home, int expert, int gpu, std::int64_t tokens) {
  decision.tokens.at(home.home_of(expert), expert) -= tokens;
  decision.tokens.at(gpu, expert) += tokens;
  decision.copies.push_back({expert, gpu});
}

StepDecision TransientCopies::decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const {
  StepDecision out = all_at_home(requests, home);
  out.planned = requests.total() / requests.top_k >= prefill_tokens_ * home.gpus;
  if (out.planned) {
    balance(requests, home, out);
  }
  settle_copies(out);
  return out;
}

ExecutionProfile TransientCopies::profile() const {
  return {.tells = ExecutionProfile::Tells::kCounts,
          .plans_before_dispatch = true,
          .copies_before_dispatch = true,
          .least_tokens = prefill_tokens_,
          .slots = slots_};
}

StepDecision with_copies_of(const Residency& held, TokenAssignment tokens) {
  return decision(held, std::move(tokens), [&](const TokenAssignment&, int e, int g) { return held.holds(e, g); });
}

StepDecision with_needed_copies(const Residency& home, TokenAssignment tokens) {
  return decision(home, std::move(tokens), [](const TokenAssignment& all, int e, int g) { return all.at(g, e) > 0; });
}

}  // namespace epsim
