#include "policies/per_step/harmoeny.h"

#include <algorithm>

#include "policies/registry.h"
#include "policies/step_policy.h"
#include "sim/core/choice.h"

namespace epsim {
namespace {

class HarmoenyScheduler {
 public:
  HarmoenyScheduler(const RequestMatrix& requests, const Residency& home, const HarmoenyOptions& options)
      : mean_(requests.total() / home.gpus),
        min_tokens_(options.min_tokens),
        load_(static_cast<std::size_t>(home.gpus), 0),
        computed_(home.gpus, home.experts()) {
    out_.gpus = home.gpus;
    out_.experts = home.experts();
    out_.tokens.assign(requests.count.size() * static_cast<std::size_t>(home.gpus), 0);
    for (int s = 0; s < home.gpus; ++s) {
      for (int e = 0; e < home.experts(); ++e) {
        const std::int64_t count = requests.at(s, e);
        out_.at(s, e, home.home_of(e)) = count;
        computed_.at(home.home_of(e), e) += count;
        load_[static_cast<std::size_t>(home.home_of(e))] += count;
      }
    }
  }

  TokenSchedule run() {
    for (;;) {
      const auto most = std::max_element(load_.begin(), load_.end());
      const auto least = std::min_element(load_.begin(), load_.end());
      if (*most <= mean_ || most == least || *least + min_tokens_ > mean_) {
        return std::move(out_);
      }
      const int from = static_cast<int>(most - load_.begin()), to = static_cast<int>(least - load_.begin());
      const int expert = hottest_on(from);
      if (computed_.at(from, expert) < min_tokens_) {
        return std::move(out_);
      }
      move_expert(expert, from, to);
    }
  }

 private:
  // The expert with most tokens there, whether at home or moved in before.
  int hottest_on(int gpu) const {
    int hottest = 0;
    for (int e = 1; e < out_.experts; ++e) {
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
      for (int s = 1; s < out_.gpus; ++s) {
        if (out_.at(s, expert, from) > out_.at(source, expert, from)) {
          source = s;
        }
      }
      const std::int64_t amount = std::min(out_.at(source, expert, from), mean_ - room_load);
      if (amount == 0) {
        return;
      }
      out_.at(source, expert, from) -= amount;
      out_.at(source, expert, to) += amount;
      computed_.at(from, expert) -= amount;
      computed_.at(to, expert) += amount;
      excess_load -= amount;
      room_load += amount;
    }
  }

  std::int64_t mean_, min_tokens_;
  std::vector<std::int64_t> load_;
  TokenAssignment computed_;  // [GPU][expert]
  TokenSchedule out_;
};

}  // namespace

TokenAssignment TokenSchedule::assignment() const {
  TokenAssignment out(gpus, experts);
  for (int s = 0; s < gpus; ++s) {
    for (int e = 0; e < experts; ++e) {
      for (int g = 0; g < gpus; ++g) {
        out.at(g, e) += at(s, e, g);
      }
    }
  }
  return out;
}

TokenSchedule harmoeny_schedule(const RequestMatrix& requests, const Residency& home, const HarmoenyOptions& options) {
  return HarmoenyScheduler(requests, home, options).run();
}

namespace {

// Where the weights of a fetched expert are.
enum class WeightSource { kHost, kGpu };

}  // namespace

template <>
inline constexpr auto kNames<WeightSource> = choice<WeightSource>({{"host", WeightSource::kHost},
                                                                   {"gpu", WeightSource::kGpu}});

namespace {

constexpr KeyTable kHarmoenyKeys({
    {"min_tokens", key::whole(Bound::kPositive), key::is(HarmoenyOptions{}.min_tokens), "Fewest tokens worth moving."},
    {"fetch_from", key::one_of<WeightSource>(), key::is(WeightSource::kHost),
     "Where a fetched expert comes from: the host's memory, over each GPU's link to it, or the GPU it is at home on."},
});

class Harmoeny final : public StepPolicy {
 public:
  explicit Harmoeny(ConfigReader& in)
      : options_{in.read<std::int64_t>(kHarmoenyKeys["min_tokens"])},
        source_(in.read<WeightSource>(kHarmoenyKeys["fetch_from"])) {}
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix&, const Residency& home) const override {
    return with_needed_copies(home, harmoeny_schedule(requests, home, options_).assignment());
  }
  ExecutionProfile profile() const override {
    return {
        .plans_before_dispatch = true, .copies_on_demand = true, .copies_from_host = source_ == WeightSource::kHost};
  }

 private:
  HarmoenyOptions options_;
  WeightSource source_;
};

}  // namespace

extern const StepPolicyEntry kHarmoeny{
    {"harmoeny",
     "Tokens move from the busiest GPU to the lightest, experts are fetched on demand: HarMoEny's schedule.",
     "the time of fetching an expert: any GPU may fetch any; links to the host that GPUs share", kHarmoenyKeys,
     make_policy<Harmoeny>}};

}  // namespace epsim
