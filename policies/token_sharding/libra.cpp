#include "policies/token_sharding/libra.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"

namespace epsim {

LibraRebalancer::LibraRebalancer(const RequestMatrix& requests, const Residency& held,
                                 const LibraShardingOptions& options)
    : requests_(requests),
      held_(held),
      options_(options),
      target_(static_cast<double>(requests.total()) / held.gpus),
      out_{local_or_home(requests, held)},
      remote_(out_.tokens) {
  for (int g = 0; g < held.gpus; ++g) {
    load_.push_back(out_.tokens.of_gpu(g));
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
  ++out_.transfers;
  return true;
}

void LibraRebalancer::move(int source, int target, int expert, std::int64_t amount) {
  const int home = held_.home_of(expert);
  out_.moved += source == home ? amount : target == home ? -amount : 0;
  for (TokenAssignment* tokens : {&remote_, &out_.tokens}) {
    tokens->at(source, expert) -= amount;
    tokens->at(target, expert) += amount;
  }
  load_[static_cast<std::size_t>(source)] -= amount;
  load_[static_cast<std::size_t>(target)] += amount;
}

LibraSharding libra_shard(const RequestMatrix& requests, const Residency& held, const LibraShardingOptions& options) {
  EPSIM_CHECK(requests.gpus == held.gpus && requests.experts == held.experts(), "requests and copies have one shape");
  LibraRebalancer rebalancer(requests, held, options);
  rebalancer.run();
  return rebalancer.take();
}

}  // namespace epsim
