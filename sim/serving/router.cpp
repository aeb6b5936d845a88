#include "sim/serving/router.h"

namespace epsim {
namespace {

std::size_t least_loaded(std::span<const DpRank> ranks) {
  std::size_t best = 0;
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].outstanding_tokens() < ranks[best].outstanding_tokens()) {
      best = r;
    }
  }
  return best;
}

}  // namespace

std::size_t RequestRouter::pick(std::span<const DpRank> ranks) {
  if (rule_ == Router::kLeastTokens) {
    return least_loaded(ranks);
  }
  const std::size_t rank = next_;
  next_ = (next_ + 1) % ranks.size();
  return rank;
}

}  // namespace epsim
