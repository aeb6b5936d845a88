#include "policies/per_step/libra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "policies/registry.h"
#include "policies/step_policy.h"
#include "sim/core/check.h"
#include "sim/core/text.h"

namespace epsim {
namespace {

class LibraPlanner {
 public:
  LibraPlanner(const RequestMatrix& predicted, const Residency& home, const LibraPrefetchOptions& options)
      : requests_(predicted), options_(options), held_(home), extras_(static_cast<std::size_t>(home.gpus), 0) {}

  Residency plan() {
    for (int g = 0; g < held_.gpus; ++g) {
      bring_local_experts(g);
    }
    const int cap = (options_.n_extra - options_.n_local) * held_.gpus;
    if (options_.relief == LibraRelief::kSimulated) {
      relieve_by_simulation(cap);
      return std::move(held_);
    }
    const TokenAssignment start = local_or_home(requests_, held_);
    for (int g = 0; g < held_.gpus; ++g) {
      load_.push_back(start.of_gpu(g));
    }
    remote_.resize(static_cast<std::size_t>(held_.experts()));
    for (int e = 0; e < held_.experts(); ++e) {
      remote_[static_cast<std::size_t>(e)] = start.at(held_.home_of(e), e) - requests_.at(held_.home_of(e), e);
    }
    target_ = static_cast<double>(requests_.total()) / held_.gpus;
    for (int i = 0; i < cap && relieve_busiest(); ++i) {
    }
    return std::move(held_);
  }

 private:
  // Phase 1: the remote experts that this GPU's tokens ask for most.
  void bring_local_experts(int gpu) {
    std::vector<int> wanted;
    for (int e = 0; e < held_.experts(); ++e) {
      if (!held_.holds(e, gpu) && requests_.at(gpu, e) > 0) {
        wanted.push_back(e);
      }
    }
    const auto count = std::min(std::ssize(wanted), static_cast<std::ptrdiff_t>(options_.n_local));
    std::partial_sort(wanted.begin(), wanted.begin() + count, wanted.end(), [&](int a, int b) {
      const std::int64_t x = requests_.at(gpu, a), y = requests_.at(gpu, b);
      return x != y ? x > y : a < b;
    });
    for (std::ptrdiff_t i = 0; i < count; ++i) {
      bring(wanted[static_cast<std::size_t>(i)], gpu);
    }
  }

  void bring(int expert, int gpu) {
    held_.add(expert, gpu);
    ++extras_[static_cast<std::size_t>(gpu)];
  }

  // Phase 2, one round: false when the busiest GPU is not above the target or cannot be relieved.
  bool relieve_busiest() {
    const auto busiest = static_cast<int>(std::max_element(load_.begin(), load_.end()) - load_.begin());
    if (static_cast<double>(load_[static_cast<std::size_t>(busiest)]) <= target_) {
      return false;
    }
    const std::vector<int> hot =
        candidates([&](int e) { return held_.home_of(e) == busiest ? remote_[static_cast<std::size_t>(e)] : 0; });
    return std::any_of(hot.begin(), hot.end(), [&](int e) { return copy_to_lightest(e, busiest); });
  }

  // Experts by their remote load on the busiest GPU, most first; literal: none but the first.
  template <class Remote>
  std::vector<int> candidates(Remote remote) const {
    std::vector<int> hot;
    for (int e = 0; e < held_.experts(); ++e) {
      if (remote(e) > 0) {
        hot.push_back(e);
      }
    }
    std::stable_sort(hot.begin(), hot.end(), [&](int a, int b) { return remote(a) > remote(b); });
    if (options_.literal && hot.size() > 1) {
      hot.erase(hot.begin() + 1, hot.end());
    }
    return hot;
  }

  // The lightest GPU that could still take a copy of the expert; -1 when there is none.
  template <class Load>
  int lightest_for(int expert, Load load) const {
    int to = -1;
    for (int g = 0; g < held_.gpus; ++g) {
      const bool room = !held_.holds(expert, g) && extras_[static_cast<std::size_t>(g)] < options_.n_extra;
      if (room && (to < 0 || load(g) < load(to))) {
        to = g;
      }
    }
    return to;
  }

  // Phase 2 with the rebalancer at work after every copy.
  void relieve_by_simulation(int cap) {
    LibraRebalancer loads(requests_, held_, {});
    loads.run();
    for (int i = 0; i < cap; ++i) {
      int busiest = 0;
      for (int g = 1; g < held_.gpus; ++g) {
        busiest = loads.load(g) > loads.load(busiest) ? g : busiest;
      }
      if (static_cast<double>(loads.load(busiest)) <= loads.target() || !relieve(busiest, loads)) {
        return;
      }
    }
  }

  bool relieve(int busiest, LibraRebalancer& loads) {
    for (const int e : candidates([&](int expert) { return loads.remote(busiest, expert); })) {
      const int to = lightest_for(e, [&](int g) { return loads.load(g); });
      const std::int64_t own = to < 0 ? 0 : requests_.at(to, e);
      if (to < 0 || loads.load(to) + std::max<std::int64_t>(own, 1) > static_cast<std::int64_t>(loads.target())) {
        continue;  // nobody can hold it, or it would be overfull with what becomes local alone
      }
      bring(e, to);
      loads.copy_added(e, to);
      loads.run();
      return true;
    }
    return false;
  }

  bool copy_to_lightest(int expert, int from) {
    const int to = lightest_for(expert, [&](int g) { return load_[static_cast<std::size_t>(g)]; });
    if (to < 0) {
      return false;
    }
    std::int64_t& load = load_[static_cast<std::size_t>(to)];
    const auto room = static_cast<std::int64_t>(std::floor(target_ - static_cast<double>(load)));
    std::int64_t moved = requests_.at(to, expert);
    if (moved > room) {
      return false;
    }
    if (options_.relief == LibraRelief::kRebalanced) {
      moved = std::min(remote_[static_cast<std::size_t>(expert)], room);
      if (moved == 0) {
        return false;
      }
    }
    bring(expert, to);
    load += moved;
    load_[static_cast<std::size_t>(from)] -= moved;
    remote_[static_cast<std::size_t>(expert)] -= moved;
    return true;
  }

  const RequestMatrix& requests_;
  LibraPrefetchOptions options_;
  Residency held_;
  std::vector<int> extras_;           // [GPU] experts brought in
  std::vector<std::int64_t> load_;    // [GPU]
  std::vector<std::int64_t> remote_;  // [expert] requests that travel to its home
  double target_ = 0;
};

}  // namespace

int libra_local_count(int n_extra, double alpha) { return static_cast<int>(std::floor(n_extra * alpha + 0.5)); }

int libra_extra_for_window(Bytes expert, BytesPerSecond rate, Seconds window, int limit) {
  const double fits = std::floor(window / (expert / rate));
  return fits >= limit ? limit : static_cast<int>(fits);
}

Residency libra_prefetch(const RequestMatrix& predicted, const Residency& home, const LibraPrefetchOptions& options) {
  EPSIM_CHECK(predicted.gpus == home.gpus && predicted.experts == home.experts(), "requests and homes have one shape");
  EPSIM_CHECK(options.n_local >= 0 && options.n_local <= options.n_extra, "L is between 0 and N");
  return LibraPlanner(predicted, home, options).plan();
}

LibraRebalancer::LibraRebalancer(const RequestMatrix& requests, const Residency& held,
                                 const LibraShardingOptions& options)
    : requests_(requests),
      held_(held),
      options_(options),
      target_(static_cast<double>(requests.total()) / held.gpus),
      out_(local_or_home(requests, held)),
      remote_(out_) {
  for (int g = 0; g < held.gpus; ++g) {
    load_.push_back(out_.of_gpu(g));
    for (int e = 0; e < held.experts(); ++e) {
      if (held.holds(e, g)) {
        remote_.at(g, e) -= requests.at(g, e);
      }
    }
  }
  tried_.resize(static_cast<std::size_t>(held.experts()));
}

void LibraRebalancer::run() {
  const double tolerated = (1 + options_.epsilon) * target_;
  while (static_cast<double>(*std::max_element(load_.begin(), load_.end())) > tolerated && pass()) {
  }
}

void LibraRebalancer::copy_added(int expert, int gpu) {
  const std::int64_t own = std::min(requests_.at(gpu, expert), remote_.at(held_.home_of(expert), expert));
  move(held_.home_of(expert), gpu, expert, own);
  remote_.at(gpu, expert) -= own;
}

// Overloaded GPUs, busiest first; one transfer each in the literal order, else one transfer altogether.
bool LibraRebalancer::pass() {
  std::vector<int> overloaded;
  for (int g = 0; g < held_.gpus; ++g) {
    if (static_cast<double>(load(g)) > target_) {
      overloaded.push_back(g);
    }
  }
  std::stable_sort(overloaded.begin(), overloaded.end(), [&](int a, int b) { return load(a) > load(b); });
  bool moved = false;
  for (const int g : overloaded) {
    moved = transfer_from(g) || moved;
    if (moved && !options_.stale_order) {
      break;
    }
  }
  return moved;
}

// The hottest remote expert that has somewhere to go.
bool LibraRebalancer::transfer_from(int source) {
  std::fill(tried_.begin(), tried_.end(), std::uint8_t{0});
  for (;;) {
    int hottest = -1;
    for (int e = 0; e < held_.experts(); ++e) {
      if (tried_[static_cast<std::size_t>(e)] == 0 && remote_.at(source, e) > 0 &&
          (hottest < 0 || remote_.at(source, e) > remote_.at(source, hottest))) {
        hottest = e;
      }
    }
    if (hottest < 0) {
      return false;
    }
    if (transfer(source, hottest)) {
      return true;
    }
    tried_[static_cast<std::size_t>(hottest)] = 1;
  }
}

bool LibraRebalancer::transfer(int source, int expert) {
  int target = -1;
  for (int g = 0; g < held_.gpus; ++g) {
    if (g != source && held_.holds(expert, g) && (target < 0 || load(g) < load(target))) {
      target = g;
    }
  }
  if (target < 0) {
    return false;
  }
  auto amount = std::min(remote_.at(source, expert),
                         static_cast<std::int64_t>(std::floor(target_ - static_cast<double>(load(target)))));
  if (options_.cap_excess) {
    amount = std::min(amount, static_cast<std::int64_t>(std::ceil(static_cast<double>(load(source)) - target_)));
  }
  if (amount < 1) {
    return false;
  }
  move(source, target, expert, amount);
  return true;
}

void LibraRebalancer::move(int source, int target, int expert, std::int64_t amount) {
  for (TokenAssignment* tokens : {&remote_, &out_}) {
    tokens->at(source, expert) -= amount;
    tokens->at(target, expert) += amount;
  }
  load_[static_cast<std::size_t>(source)] -= amount;
  load_[static_cast<std::size_t>(target)] += amount;
}

TokenAssignment libra_shard(const RequestMatrix& requests, const Residency& held, const LibraShardingOptions& options) {
  EPSIM_CHECK(requests.gpus == held.gpus && requests.experts == held.experts(), "requests and copies have one shape");
  LibraRebalancer rebalancer(requests, held, options);
  rebalancer.run();
  return rebalancer.take();
}

namespace {

constexpr KeyTable kLibraKeys({
    {"n_extra", key::text(), key::is("8"),
     "Experts brought to a GPU per layer, or auto: what window, rate and expert_bytes allow."},
    {"window", key::time(), key::by("required with n_extra: auto"), "Time in which experts may arrive."},
    {"rate", key::byte_rate(Bound::kPositive), key::by("required with n_extra: auto"), "Rate at which experts arrive."},
    {"expert_bytes", key::bytes(Bound::kPositive), key::by("required with n_extra: auto"), "Size of an expert."},
    {"most_extra", key::whole(), key::is(8), "Most experts with n_extra: auto."},
    {"alpha", key::number(), key::is(0.5), "Share of n_extra chosen by a GPU's own tokens."},
    {"n_local", key::whole(), key::by("alpha x n_extra"), "Experts chosen by a GPU's own tokens."},
    {"relief", key::one_of<LibraRelief>(), key::is(LibraRelief::kRebalanced),
     "What a copy is expected to take off its home GPU."},
    {"literal_stop", key::flag(), key::is(false), "Stop as the paper's algorithm literally does."},
    {"epsilon", key::number(Bound::kPositive), key::is(LibraShardingOptions{}.epsilon),
     "Imbalance at which token balancing stops."},
    {"stale_order", key::flag(), key::is(false), "Keep the GPUs' first order while tokens move."},
    {"cap_excess", key::flag(), key::is(false), "Move at most a GPU's excess."},
    {"two_stage", key::flag(), key::is(true), "Compute a GPU's own tokens while others are planned and gathered."},
    {"sharding", key::flag(), key::is(true),
     "Rebalance remote tokens; false: they go to their expert's home, and nothing is planned in the step."},
});

// A number, or `auto`: as many experts as arrive within the time window.
int read_extra(ConfigReader& in) {
  const std::string text = in.read<std::string>(kLibraKeys["n_extra"]);
  if (text == "auto") {
    const auto window = in.read<Seconds>(kLibraKeys["window"]);
    const auto rate = in.read<BytesPerSecond>(kLibraKeys["rate"]);
    const auto expert = in.read<Bytes>(kLibraKeys["expert_bytes"]);
    return libra_extra_for_window(expert, rate, window, in.read<int>(kLibraKeys["most_extra"]));
  }
  const int value = number_from<int>(text).value_or(-1);
  in.check(value >= 0, "n_extra",
           fmt::format("'{}' is neither `auto` nor a whole number of experts, 0 or more.", text));
  return value;
}

class Libra final : public StepPolicy {
 public:
  explicit Libra(ConfigReader& in) {
    prefetch_.n_extra = read_extra(in);
    const int local = libra_local_count(prefetch_.n_extra, in.read<double>(kLibraKeys["alpha"]));
    prefetch_.n_local = in.read<int>(kLibraKeys["n_local"], local);
    in.check(prefetch_.n_local <= prefetch_.n_extra, "n_local", "at most n_extra experts can be brought in.");
    prefetch_.literal = in.read<bool>(kLibraKeys["literal_stop"]);
    prefetch_.relief = in.read<LibraRelief>(kLibraKeys["relief"]);
    sharding_.epsilon = in.read<double>(kLibraKeys["epsilon"]);
    sharding_.stale_order = in.read<bool>(kLibraKeys["stale_order"]);
    sharding_.cap_excess = in.read<bool>(kLibraKeys["cap_excess"]);
    two_stage_ = in.read<bool>(kLibraKeys["two_stage"]);
    shards_ = in.read<bool>(kLibraKeys["sharding"]);
  }
  StepDecision decide(const RequestMatrix& requests, const RequestMatrix& predicted,
                      const Residency& home) const override {
    const Residency held = libra_prefetch(predicted, home, prefetch_);
    return with_copies_of(held, shards_ ? libra_shard(requests, held, sharding_) : local_or_home(requests, held));
  }
  ExecutionProfile profile() const override {
    const bool prefetches = prefetch_.n_extra > 0;
    return {.dispatch = ExecutionProfile::Dispatch::kAllGather,
            .two_stage = two_stage_,
            .plans_before_dispatch = shards_,
            .resident_buffers = prefetches ? 2 : 0,
            .extra_experts = prefetch_.n_extra,
            .predicts_on_gpu = prefetches,
            .uses_prediction = prefetches};
  }

 private:
  LibraPrefetchOptions prefetch_;
  LibraShardingOptions sharding_;
  bool two_stage_ = true, shards_ = true;
};

}  // namespace

extern const StepPolicyEntry kLibra{
    {"libra",
     "Experts predicted for the next layer are copied ahead, remote tokens rebalanced: Libra, Algorithms 1 and 2.",
     "nodes (any GPU may fetch from any), the time of copies (the step's price has it)", kLibraKeys,
     make_policy<Libra>},
    true};

}  // namespace epsim
