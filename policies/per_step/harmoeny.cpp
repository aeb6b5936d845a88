// HarMoEny's schedule: tokens leave the busiest GPU for the lightest one, whose copy of the expert is fetched on
// demand.
//   Source : sacs-epfl/HarMoEny, scheduler of the harmonymoe layer (arXiv 2506.12417); behaviour only.
//   Models : top-1 routing or any other: only counts matter; any GPU may compute any expert. Experts are fetched from the
//            host's memory, as in the paper's abstract and by the code's default (`fetching_strategy="async-cpu"`,
//            src/harmonymoe/expert_manager.py at 563b5a6): `fetch_from: host`. Each GPU has its own link to it
//            (`host_rate` of gpus.yaml), of which copies reach `copy_efficiency`. `gpu`: from the expert's home.
//   Ignores: links to the host that GPUs share, the host's memory rate, and the code's cache: an expert that one step
//            fetched is fetched again in the next.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/registry.h"
#include "policies/step_policy.h"
#include "sim/core/choice.h"

namespace epsim {
namespace {

// Starts with every token at its expert's home and moves tokens until no GPU is above the (whole-number) mean or no
// move of at least min_tokens is left. Ties to the lower index.
class HarmoenyScheduler {
 public:
  HarmoenyScheduler(const RequestMatrix& requests, const Residency& home, std::int64_t min_tokens)
      : mean_(requests.total() / home.gpus),
        min_tokens_(min_tokens),
        load_(static_cast<std::size_t>(home.gpus), 0),
        by_source_(static_cast<std::size_t>(home.gpus), TokenAssignment(home.gpus, home.experts())),
        computed_(home.gpus, home.experts()) {
    for (int s = 0; s < home.gpus; ++s) {
      for (int e = 0; e < home.experts(); ++e) {
        const std::int64_t count = requests.at(s, e);
        tokens(s, e, home.home_of(e)) = count;
        computed_.at(home.home_of(e), e) += count;
        load_[static_cast<std::size_t>(home.home_of(e))] += count;
      }
    }
  }

  TokenAssignment run() {
    for (;;) {
      const auto most = std::max_element(load_.begin(), load_.end());
      const auto least = std::min_element(load_.begin(), load_.end());
      if (*most <= mean_ || most == least || *least + min_tokens_ > mean_) {
        return std::move(computed_);
      }
      const int from = static_cast<int>(most - load_.begin()), to = static_cast<int>(least - load_.begin());
      const int expert = hottest_on(from);
      if (computed_.at(from, expert) < min_tokens_) {
        return std::move(computed_);
      }
      move_expert(expert, from, to);
    }
  }

 private:
  std::int64_t& tokens(int source, int expert, int gpu) {
    return by_source_[static_cast<std::size_t>(source)].at(gpu, expert);
  }

  // The expert with most tokens there, whether at home or moved in before.
  int hottest_on(int gpu) const {
    int hottest = 0;
    for (int e = 1; e < computed_.experts; ++e) {
      if (computed_.at(gpu, e) > computed_.at(gpu, hottest)) {
        hottest = e;
      }
    }
    return hottest;
  }

  // Source by source, the largest first, while the GPU is above the mean and the other below. The last move may be
  // larger than the excess: only the receiver's room bounds it.
  void move_expert(int expert, int from, int to) {
    std::int64_t& excess_load = load_[static_cast<std::size_t>(from)];
    std::int64_t& room_load = load_[static_cast<std::size_t>(to)];
    while (excess_load > mean_ && room_load < mean_) {
      int source = 0;
      for (int s = 1; s < computed_.gpus; ++s) {
        if (tokens(s, expert, from) > tokens(source, expert, from)) {
          source = s;
        }
      }
      const std::int64_t amount = std::min(tokens(source, expert, from), mean_ - room_load);
      if (amount == 0) {
        return;
      }
      tokens(source, expert, from) -= amount;
      tokens(source, expert, to) += amount;
      computed_.at(from, expert) -= amount;
      computed_.at(to, expert) += amount;
      excess_load -= amount;
      room_load += amount;
    }
  }

  std::int64_t mean_, min_tokens_;
  std::vector<std::int64_t> load_;
  std::vector<TokenAssignment> by_source_;  // [source], of its tokens alone
  TokenAssignment computed_;                // of all
};

// Where the weights of a fetched expert are.
enum class WeightSource { kHost, kGpu };

}  // namespace

template <>
inline constexpr auto kNames<WeightSource> = choice<WeightSource>({{"host", WeightSource::kHost},
                                                                   {"gpu", WeightSource::kGpu}});

namespace {

constexpr KeyTable kHarmoenyKeys({
    {"min_tokens", key::whole(Bound::kPositive), key::is(150), "Fewest tokens worth moving."},
    {"fetch_from", key::one_of<WeightSource>(), key::is(WeightSource::kHost),
     "Where a fetched expert comes from: the host's memory, over each GPU's link to it, or the GPU it is at home on."},
});

class Harmoeny final : public StepPolicy {
 public:
  explicit Harmoeny(ConfigReader& in)
      : min_tokens_(in.read<std::int64_t>(kHarmoenyKeys["min_tokens"])),
        source_(in.read<WeightSource>(kHarmoenyKeys["fetch_from"])) {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    return with_needed_copies(home, HarmoenyScheduler(requests, home, min_tokens_).run());
  }
  ExecutionProfile profile() const override {
    return {
        .plans_before_dispatch = true, .copies_on_demand = true, .copies_from_host = source_ == WeightSource::kHost};
  }

 private:
  std::int64_t min_tokens_;
  WeightSource source_;
};

}  // namespace

extern const StepPolicyEntry kHarmoeny{
    {"harmoeny",
     "Tokens move from the busiest GPU to the lightest, experts are fetched on demand: HarMoEny's schedule.",
     "the time of fetching an expert: any GPU may fetch any; links to the host that GPUs share", kHarmoenyKeys,
     make_policy<Harmoeny>}};

}  // namespace epsim
