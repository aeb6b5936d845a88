#include "sim/serving/router.h"

#include <algorithm>

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

constexpr double kCacheThreshold = 0.5, kBalanceThreshold = 1.5;

bool balanced(std::span<const DpRank> ranks) {
  std::int64_t least = ranks[0].outstanding_tokens(), most = least;
  for (const DpRank& rank : ranks) {
    least = std::min(least, rank.outstanding_tokens());
    most = std::max(most, rank.outstanding_tokens());
  }
  return static_cast<double>(most) <= kBalanceThreshold * static_cast<double>(least);
}

std::size_t best_cached(std::span<const DpRank> ranks, std::int32_t request) {
  std::size_t best = 0;
  std::int64_t most = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (const std::int64_t cached = ranks[r].cached_tokens(request); cached > most) {
      best = r;
      most = cached;
    }
  }
  const bool enough = static_cast<double>(most) > kCacheThreshold * ranks[best].input_tokens(request);
  return enough ? best : least_loaded(ranks);
}

}  // namespace

std::size_t RequestRouter::pick(std::span<const DpRank> ranks, std::int32_t request) {
  if (rule_ == Router::kLeastTokens) {
    return least_loaded(ranks);
  }
  if (rule_ == Router::kCacheAware) {
    return balanced(ranks) ? best_cached(ranks, request) : least_loaded(ranks);
  }
  const std::size_t rank = next_;
  next_ = (next_ + 1) % ranks.size();
  return rank;
}

}  // namespace epsim
