#include "sim/scheduler/router.h"

#include <algorithm>

namespace epsim {
namespace {

constexpr double kCacheThreshold = 0.3, kBalanceRatio = 1.5;
constexpr std::int64_t kBalanceDifference = 64;  // requests

std::size_t first_least(std::span<const RouterChoice> choices) {
  const auto least = std::min_element(choices.begin(), choices.end(),
                                      [](const RouterChoice& a, const RouterChoice& b) { return a.load < b.load; });
  return static_cast<std::size_t>(least - choices.begin());
}

std::size_t first_most_cached(std::span<const RouterChoice> choices) {
  const auto most = std::max_element(choices.begin(), choices.end(), [](const RouterChoice& a, const RouterChoice& b) {
    return a.cached_tokens < b.cached_tokens;
  });
  return static_cast<std::size_t>(most - choices.begin());
}

}  // namespace

std::size_t pick_choice(std::span<const RouterChoice> choices, std::int64_t input_tokens) {
  const std::size_t least = first_least(choices), cached = first_most_cached(choices);
  std::int64_t most_loaded = 0;
  for (const RouterChoice& choice : choices) {
    most_loaded = std::max(most_loaded, choice.load);
  }
  const std::int64_t least_loaded = choices[least].load;
  const bool balanced = most_loaded - least_loaded <= kBalanceDifference ||
                        static_cast<double>(most_loaded) <= kBalanceRatio * static_cast<double>(least_loaded);
  const bool enough =
      static_cast<double>(choices[cached].cached_tokens) > kCacheThreshold * static_cast<double>(input_tokens);
  return balanced && enough ? cached : least;
}

std::size_t RequestRouter::pick(std::span<const std::unique_ptr<Scheduler>> ranks, std::int32_t request) {
  if (rule_ == Router::kRoundRobin) {
    while (!ranks[next_]->alive()) {
      next_ = (next_ + 1) % ranks.size();
    }
    const std::size_t rank = next_;
    next_ = (next_ + 1) % ranks.size();
    return rank;
  }
  choices_.clear();
  alive_.clear();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r]->alive()) {
      const std::int64_t cached = rule_ == Router::kCacheAware ? ranks[r]->cached_tokens(request) : 0;
      choices_.push_back({ranks[r]->load(rule_), cached});
      alive_.push_back(r);
    }
  }
  return alive_[pick_choice(choices_, ranks[0]->input_tokens(request))];
}

}  // namespace epsim
