#include "sim/cluster/losses.h"

#include <algorithm>
#include <set>

namespace epsim {
namespace {

LostGpus lost_at(std::span<const Fault> faults, Ticks now, int gpus) {
  LostGpus out(static_cast<std::size_t>(gpus), false);
  for (const Fault& f : faults) {
    if (f.takes_gpus() && f.at <= now && now < f.until) {
      std::fill_n(out.begin() + f.first_gpu, f.gpus, true);
    }
  }
  return out;
}

// Groups of `size` consecutive GPUs, DP ranks or EP ranks, that have lost one.
std::vector<bool> broken(const LostGpus& lost, int size) {
  std::vector<bool> out(lost.size() / static_cast<std::size_t>(size), false);
  for (std::size_t g = 0; g < lost.size(); ++g) {
    const std::size_t group = g / static_cast<std::size_t>(size);
    out[group] = out[group] || lost[g];
  }
  return out;
}

// Those that are `now` and were not `before`.
std::vector<int> newly(const std::vector<bool>& now, const std::vector<bool>& before) {
  std::vector<int> out;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] && !before[i]) {
      out.push_back(static_cast<int>(i));
    }
  }
  return out;
}

Ticks standing(std::span<const Fault> faults, Ticks at) {
  Ticks out{};
  for (const Fault& f : faults) {
    if (f.takes_gpus()) {
      out = std::max({out, f.at == at ? f.recovery : Ticks{}, f.until == at ? f.rejoin : Ticks{}});
    }
  }
  return out;
}

}  // namespace

InstanceLosses losses_of(std::span<const Fault> faults, const Parallelism& parallelism) {
  std::set<Ticks> times;
  for (const Fault& f : faults) {
    if (f.takes_gpus()) {
      times.insert(f.at);
    }
    if (f.takes_gpus() && !f.for_good()) {
      times.insert(f.until);
    }
  }
  InstanceLosses out;
  LostGpus before(static_cast<std::size_t>(parallelism.gpus), false);
  for (const Ticks at : times) {
    const LostGpus now = lost_at(faults, at, parallelism.gpus);
    if (now == before) {
      continue;
    }
    const std::vector<bool> ranks = broken(now, parallelism.attention_tp),
                            were = broken(before, parallelism.attention_tp);
    const bool none_left = std::find(ranks.begin(), ranks.end(), false) == ranks.end();
    out.losses.push_back({at, standing(faults, at), newly(ranks, were), none_left, newly(were, ranks)});
    out.lost.push_back(broken(now, parallelism.moe_tp));
    before = now;
  }
  return out;
}

}  // namespace epsim
