#include "sim/scheduler/router.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr double kCacheThreshold = 0.3, kBalanceRatio = 1.5;
constexpr std::int64_t kBalanceDifference = 64;  // requests

constexpr auto kNoRank = std::numeric_limits<std::int64_t>::max();

// Of the ranks with the least of `load`, the first.
template <typename Load>
std::size_t first_least(std::span<const RouterChoice> choices, Load load) {
  return static_cast<std::size_t>(std::ranges::min_element(choices, {}, load) - choices.begin());
}

std::size_t pick_even(std::span<const RouterChoice> choices) {
  const std::int64_t ranks = std::ssize(choices);
  std::int64_t requests = 1, most = 0;  // with the new one
  for (const RouterChoice& c : choices) {
    requests += c.load.requests();
    most = std::max(most, c.load.requests());
  }
  const std::int64_t share = std::max((requests + ranks - 1) / ranks, most);
  return first_least(choices, [share](const RouterChoice& c) {
    const bool has_room = c.load.requests() < share;
    return std::pair(has_room ? c.load.input_tokens : kNoRank, c.load.requests());
  });
}

std::size_t pick_cached(std::span<const RouterChoice> choices, std::int64_t input_tokens) {
  const auto requests = [](const RouterChoice& c) { return c.load.requests(); };
  const std::size_t least = first_least(choices, requests);
  const std::size_t cached =
      first_least(choices, [](const RouterChoice& c) { return std::pair(-c.cached_tokens, c.load.requests()); });
  const std::int64_t most_loaded = requests(*std::ranges::max_element(choices, {}, requests));
  const std::int64_t least_loaded = requests(choices[least]);
  const bool balanced = most_loaded - least_loaded <= kBalanceDifference ||
                        static_cast<double>(most_loaded) <= kBalanceRatio * static_cast<double>(least_loaded);
  const bool enough =
      static_cast<double>(choices[cached].cached_tokens) > kCacheThreshold * static_cast<double>(input_tokens);
  return balanced && enough ? cached : least;
}

}  // namespace

std::size_t pick_choice(Router rule, std::span<const RouterChoice> choices, std::int64_t input_tokens) {
  switch (rule) {
    case Router::kLeastRequests:
      return first_least(choices, [](const RouterChoice& c) { return 4 * c.load.waiting + c.load.running; });
    case Router::kLeastTokens:
      return first_least(choices, [](const RouterChoice& c) { return c.load.input_tokens + c.load.output_tokens; });
    case Router::kEvenRequests:
      return pick_even(choices);
    case Router::kCacheAware:
      return pick_cached(choices, input_tokens);
    case Router::kRoundRobin:
    case Router::kRandom:
      break;
  }
  EPSIM_CHECK(false, "round_robin and random go by no load");
  return 0;
}

std::size_t pick_random(Seed seed, std::string_view stream, std::size_t count, std::int32_t request) {
  return RandomStream(seed, stream, static_cast<std::uint64_t>(request)).below(count);
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
  const std::size_t first = rule_ == Router::kLeastRequests ? next_ : 0;
  next_ = (next_ + 1) % ranks.size();
  choices_.clear();
  alive_.clear();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t r = (first + i) % ranks.size();
    if (ranks[r]->alive()) {
      const std::int64_t cached = rule_ == Router::kCacheAware ? ranks[r]->cached_tokens(request) : 0;
      choices_.push_back({ranks[r]->load(), cached});
      alive_.push_back(r);
    }
  }
  if (rule_ == Router::kRandom) {
    return alive_[pick_random(seed_, stream_, alive_.size(), request)];
  }
  return alive_[pick_choice(rule_, choices_, ranks[0]->input_tokens(request))];
}

}  // namespace epsim
