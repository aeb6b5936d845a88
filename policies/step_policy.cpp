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

}  // namespace

StepDecision with_copies_of(const Residency& held, TokenAssignment tokens) {
  return decision(held, std::move(tokens), [&](const TokenAssignment&, int e, int g) { return held.holds(e, g); });
}

StepDecision with_needed_copies(const Residency& home, TokenAssignment tokens) {
  return decision(home, std::move(tokens), [](const TokenAssignment& all, int e, int g) { return all.at(g, e) > 0; });
}

}  // namespace epsim
