#include "sim/cluster/hardware_change.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "models/network/fabric.h"

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

void slow(std::vector<double>& speeds, const Fault& fault, double speed, int gpus) {
  if (speed == 1.0) {
    return;
  }
  speeds.resize(static_cast<std::size_t>(gpus), 1.0);
  for (int g = fault.first_gpu; g < fault.first_gpu + fault.gpus; ++g) {
    speeds[static_cast<std::size_t>(g)] *= speed;
  }
}

// What the NICs of every node that has one slowed or lost leave to its GPUs. A slowed NIC still carries what its own
// GPUs send, a lost one's share goes over all that are left.
std::vector<double> nic_speeds(std::span<const Fault> faults, Ticks now, const ClusterSpec& cluster) {
  std::vector<double> out;
  const NicGroups groups = nic_groups(cluster.node);
  for (const Fault& fault : faults) {
    if (fault.nic < 0 || !fault.holds_at(now)) {
      continue;
    }
    out.resize(static_cast<std::size_t>(cluster.gpus()), 1.0);
    const int nics = cluster.node.nics, per_group = nics / groups.groups_per_node;
    for (int i = 0; i < cluster.node.gpus; ++i) {
      double& speed = out[static_cast<std::size_t>(fault.first_gpu + i)];
      if (!fault.lost && i / groups.gpus_per_group == fault.nic / per_group) {
        speed *= 1.0 - (1.0 - fault.link_speed) / per_group;
      }
    }
  }
  for (int node = 0; node < cluster.nodes && !out.empty(); ++node) {
    const int first = node * cluster.node.gpus, nics = cluster.node.nics;
    const int lost = faults.empty() ? 0 : lost_nics(faults, now, faults.front().instance, first, nics);
    for (int g = first; g < first + cluster.node.gpus; ++g) {
      out[static_cast<std::size_t>(g)] *= static_cast<double>(nics - lost) / nics;
    }
  }
  return out;
}

bool is_lost(std::span<const Fault> faults, int gpu, Ticks now) {
  return std::any_of(faults.begin(), faults.end(),
                     [&](const Fault& f) { return f.takes_gpus() && f.covers(gpu) && f.holds_at(now); });
}

// When anything changes.
std::set<Ticks> times_of(std::span<const Fault> faults) {
  std::set<Ticks> out;
  for (const Fault& f : faults) {
    out.insert(f.at);
    if (!f.for_good()) {
      out.insert(f.until);
    }
  }
  return out;
}

}  // namespace

std::vector<Fault> faults_of(std::span<const Fault> faults, int instance) {
  std::vector<Fault> out;
  std::copy_if(faults.begin(), faults.end(), std::back_inserter(out),
               [instance](const Fault& f) { return f.instance == instance; });
  return out;
}

StepConditions conditions_at(std::span<const Fault> faults, Ticks now, const ClusterSpec& cluster) {
  StepConditions out;
  const int gpus = cluster.gpus();
  for (const Fault& fault : faults) {
    if (fault.holds_at(now) && fault.nic < 0 && !fault.lost) {
      slow(out.gpu_speed, fault, fault.speed, gpus);
      slow(out.link_speed, fault, fault.link_speed, gpus);
    }
  }
  out.nic_speed = nic_speeds(faults, now, cluster);
  for (std::vector<double>* speeds : {&out.gpu_speed, &out.link_speed, &out.nic_speed}) {
    for (std::size_t g = 0; g < speeds->size(); ++g) {
      (*speeds)[g] = is_lost(faults, static_cast<int>(g), now) ? 1.0 : (*speeds)[g];
    }
  }
  return out;
}

std::vector<HardwareChange> hardware_changes(std::span<const Fault> faults, const ClusterSpec& cluster,
                                             const Parallelism& parallelism) {
  std::vector<HardwareChange> out;
  LostGpus before(static_cast<std::size_t>(parallelism.gpus), false);
  for (const Ticks at : times_of(faults)) {
    const LostGpus now = lost_at(faults, at, parallelism.gpus);
    const std::vector<bool> ranks = broken(now, parallelism.attention_tp),
                            were = broken(before, parallelism.attention_tp);
    HardwareChange change{.at = at, .recovery = {}, .ranks = newly(ranks, were)};
    change.gpus = now != before;
    change.recovery = change.gpus ? standing(faults, at) : Ticks{};
    change.fatal = std::find(ranks.begin(), ranks.end(), false) == ranks.end();
    change.back = newly(were, ranks);
    change.lost = broken(now, parallelism.moe_tp);
    change.conditions = conditions_at(faults, at, cluster);
    out.push_back(std::move(change));
    before = now;
  }
  return out;
}

}  // namespace epsim
