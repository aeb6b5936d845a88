#include "sim/scenario/faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/network/fabric.h"

namespace epsim {
namespace {

double read_speed(ConfigReader& in, const std::string& key) {
  const double speed = in.optional<double>(key, 1.0);
  in.check(speed > 0, key, "a share of its speed above 0; hardware that is gone is `lost: true`.");
  in.check(speed <= 1.0, key, "a share of its speed is at most 1.");
  return speed;
}

// Which GPUs the fault is about, and whether of a NIC alone.
void read_place(ConfigReader& in, std::span<const FaultySide> instances, Fault& out) {
  const auto count = static_cast<int>(instances.size());
  const auto instance = in.maybe<int>("instance");
  in.check(instance.has_value() || count == 1, "instance",
           fmt::format("with several instances a fault names one of them, 0 to {}.", count - 1));
  out.instance = instance.value_or(0);
  in.check(out.instance < count, "instance", fmt::format("the instances are numbered 0 to {}.", count - 1));
  const ClusterSpec& cluster = instances[static_cast<std::size_t>(out.instance)].cluster;
  const auto gpu = in.maybe<int>("gpu"), node = in.maybe<int>("node"), nic = in.maybe<int>("nic");
  const bool whole = instance.has_value() && !gpu && !node;
  in.check(whole || gpu.has_value() != node.has_value(), "gpu",
           "a fault names either a `gpu` or a `node`, or an `instance` as a whole.");
  in.check(!nic || node, "nic", "a NIC is one of a `node`, which the fault has to name.");
  if (gpu) {
    in.check(*gpu < cluster.gpus(), "gpu", fmt::format("the GPUs are numbered 0 to {}.", cluster.gpus() - 1));
    out.first_gpu = *gpu;
  } else {
    in.check(whole || *node < cluster.nodes, "node", fmt::format("the nodes are numbered 0 to {}.", cluster.nodes - 1));
    out.first_gpu = whole ? 0 : *node * cluster.node.gpus;
    out.gpus = whole ? cluster.gpus() : cluster.node.gpus;
  }
  if (nic) {
    const int nics = cluster.node.nics;
    in.check(*nic < nics, "nic",
             nics == 0 ? fmt::format("nodes of kind {} have no NIC.", cluster.node.name)
                       : fmt::format("the NICs of a node are numbered 0 to {}.", nics - 1));
    out.nic = *nic;
  }
}

void read_effect(ConfigReader& in, Fault& out) {
  out.lost = in.optional<bool>("lost", false);
  in.check(!out.lost || (!in.has("speed") && !in.has("link_speed")), "lost",
           "what is lost has no speed; leave out `speed` and `link_speed`.");
  for (const char* key : {"recovery", "rejoin"}) {
    in.check(out.takes_gpus() || !in.has(key), key,
             "only the loss of a GPU, a node or an instance has a time of recovery.");
  }
  in.check(out.nic < 0 || !in.has("speed"), "speed", "a NIC has a `link_speed`.");
  if (out.lost) {
    if (out.takes_gpus()) {
      out.recovery = to_ticks(in.optional<Seconds>("recovery", Seconds{}));
      in.check(!out.for_good() || !in.has("rejoin"), "rejoin",
               "what is lost for good does not come back; give `until`.");
      if (!out.for_good()) {
        out.rejoin = to_ticks(in.optional<Seconds>("rejoin", Seconds{}));
      }
    }
    return;
  }
  if (out.nic < 0) {
    out.speed = read_speed(in, "speed");
  }
  out.link_speed = read_speed(in, "link_speed");
  in.check(out.speed < 1.0 || out.link_speed < 1.0, "speed",
           "a fault slows something, `speed` or `link_speed` below 1, or takes it: `lost: true`.");
}

Fault read_fault(ConfigReader& in, std::span<const FaultySide> instances) {
  Fault out;
  out.at = to_ticks(in.required<Seconds>("at"));
  if (const auto until = in.maybe<Seconds>("until")) {
    out.until = to_ticks(*until);
    in.check(out.until > out.at, "until", "a fault ends after it began (`at`).");
  }
  read_place(in, instances, out);
  read_effect(in, out);
  in.finish();
  return out;
}

bool holds(const Fault& fault, Ticks now) { return fault.at <= now && now < fault.until; }

bool covers(const Fault& fault, int gpu) { return fault.first_gpu <= gpu && gpu < fault.first_gpu + fault.gpus; }

void slow(std::vector<double>& speeds, const Fault& fault, double speed, int gpus) {
  if (speed == 1.0) {
    return;
  }
  speeds.resize(static_cast<std::size_t>(gpus), 1.0);
  for (int g = fault.first_gpu; g < fault.first_gpu + fault.gpus; ++g) {
    speeds[static_cast<std::size_t>(g)] *= speed;
  }
}

// NICs of the fault's node that are gone at `now`, each counted once.
int lost_nics(std::span<const Fault> faults, Ticks now, int instance, int first_gpu, int nics) {
  int count = 0;
  for (int k = 0; k < nics; ++k) {
    count += std::any_of(faults.begin(), faults.end(), [&](const Fault& f) {
      return f.lost && f.nic == k && f.instance == instance && f.first_gpu == first_gpu && holds(f, now);
    });
  }
  return count;
}

// What the NICs of every node that has one slowed or lost leave to its GPUs. A slowed NIC still carries what its own
// GPUs send, a lost one's share goes over all that are left.
std::vector<double> nic_speeds(std::span<const Fault> faults, Ticks now, const ClusterSpec& cluster) {
  std::vector<double> out;
  const NicGroups groups = nic_groups(cluster.node);
  for (const Fault& fault : faults) {
    if (fault.nic < 0 || !holds(fault, now)) {
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
                     [&](const Fault& f) { return f.takes_gpus() && covers(f, gpu) && holds(f, now); });
}

// Whether a GPU of the instance is left when all has happened.
bool any_left(std::span<const Fault> faults, int instance, const ClusterSpec& cluster) {
  for (int g = 0; g < cluster.gpus(); ++g) {
    if (std::none_of(faults.begin(), faults.end(), [&](const Fault& f) {
          return f.instance == instance && f.takes_gpus() && f.for_good() && covers(f, g);
        })) {
      return true;
    }
  }
  return false;
}

void check_somebody_is_left(const ConfigReader& root, std::span<const Fault> faults,
                            std::span<const FaultySide> instances) {
  for (const FaultySide& side : instances) {
    bool left = false;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      left = left || (instances[i].role == side.role && any_left(faults, static_cast<int>(i), instances[i].cluster));
    }
    root.check(left, "faults",
               side.role == InstanceRole::kWhole
                   ? "everything is lost in the end; leave something that can serve."
                   : fmt::format("every {} instance is lost in the end; leave one.",
                                 kInstanceRoleNames[static_cast<std::size_t>(side.role)]));
  }
}

void check_nics_left(const ConfigReader& root, std::span<const Fault> faults, std::span<const FaultySide> instances) {
  for (const Fault& f : faults) {
    const NodeSpec& node = instances[static_cast<std::size_t>(f.instance)].cluster.node;
    root.check(
        !f.lost || f.nic < 0 || lost_nics(faults, f.at, f.instance, f.first_gpu, node.nics) < node.nics, "faults",
        fmt::format("node {} has lost all of its NICs, which cuts it off; lose the node.", f.first_gpu / node.gpus));
  }
}

}  // namespace

std::vector<Fault> read_faults(ConfigReader& root, std::span<const FaultySide> instances) {
  std::vector<Fault> out;
  if (root.has("faults")) {
    for (ConfigReader& in : root.list_of_sections("faults")) {
      out.push_back(read_fault(in, instances));
    }
    check_somebody_is_left(root, out, instances);
    check_nics_left(root, out, instances);
  }
  return out;
}

StepConditions conditions_at(std::span<const Fault> faults, Ticks now, const ClusterSpec& cluster) {
  StepConditions out;
  const int gpus = cluster.gpus();
  for (const Fault& fault : faults) {
    if (holds(fault, now) && fault.nic < 0 && !fault.lost) {
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

StepCost FaultyPricer::price(const StepAt& at, std::span<const RankBatch> ranks) {
  std::vector<bool> active;
  for (const Fault& fault : faults_) {
    active.push_back(holds(fault, at.start));
  }
  if (active != active_) {
    pricer_.set_conditions(conditions_at(faults_, at.start, cluster_));
    active_ = std::move(active);
  }
  return pricer_.price(at, ranks);
}

}  // namespace epsim
