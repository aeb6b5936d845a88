#include "sim/scenario/faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/root_keys.h"

namespace epsim {
namespace {

constexpr KeyTable kFaultKeys({
    {"at", key::time(), key::kRequired, "From the first step that begins then or later."},
    {"until", key::time(), key::by("for good"), "Up to the last step that begins before."},
    {"instance", key::whole(), key::by("0; required with several"),
     "Instance, from 0; prefill instances first. Alone with `lost`: all of it."},
    {"gpu", key::whole(), key::kNone, "GPU of the instance, from 0."},
    {"node", key::whole(), key::kNone, "Node of the instance, from 0."},
    {"nic", key::whole(), key::kNone, "One NIC of the node, from 0."},
    {"lost", key::flag(), key::is(false), "The hardware fails rather than slows down."},
    {"speed", key::number(kShare), key::is(1.0), "Share of its speed that remains; above 0."},
    {"link_speed", key::number(kShare), key::is(1.0), "Share of the links' rate that remains; above 0."},
    {"recovery", key::time(), key::is(Seconds(0)), "Time after a loss until the instance steps again."},
    {"rejoin", key::time(), key::is(Seconds(0)), "The same when the lost part is back."},
});

double read_speed(ConfigReader& in, const Key& key) {
  const double speed = in.read<double>(key);
  in.check(speed > 0, std::string(key.name), "must be above 0; use `lost: true` for failed hardware.");
  return speed;
}

// Which GPUs the fault is about, and whether of a NIC alone.
void read_place(ConfigReader& in, std::span<const FaultySide> instances, Fault& out) {
  const auto count = static_cast<int>(instances.size());
  const auto instance = in.maybe<int>(kFaultKeys["instance"]);
  in.check(instance.has_value() || count == 1, "instance",
           fmt::format("with several instances a fault names one of them, 0 to {}.", count - 1));
  out.instance = instance.value_or(0);
  in.check(out.instance < count, "instance", fmt::format("the instances are numbered 0 to {}.", count - 1));
  const ClusterSpec& cluster = instances[static_cast<std::size_t>(out.instance)].cluster;
  const auto gpu = in.maybe<int>(kFaultKeys["gpu"]), node = in.maybe<int>(kFaultKeys["node"]),
             nic = in.maybe<int>(kFaultKeys["nic"]);
  const bool whole = instance.has_value() && !gpu && !node;
  in.check(whole || gpu.has_value() != node.has_value(), "gpu",
           "a fault names either a `gpu` or a `node`, or an `instance` as a whole.");
  in.check(!nic || node, "nic", "`nic` needs the `node` that it belongs to.");
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
  out.lost = in.read<bool>(kFaultKeys["lost"]);
  in.check(!out.lost || (!in.has("speed") && !in.has("link_speed")), "lost",
           "failed hardware has no speed; leave out `speed` and `link_speed`.");
  for (const char* key : {"recovery", "rejoin"}) {
    in.check(out.takes_gpus() || !in.has(key), key,
             "only the loss of a GPU, a node or an instance has a time of recovery.");
  }
  in.check(out.nic < 0 || !in.has("speed"), "speed", "a NIC has a `link_speed`.");
  if (out.lost) {
    if (out.takes_gpus()) {
      out.recovery = to_ticks(in.read<Seconds>(kFaultKeys["recovery"]));
      in.check(!out.for_good() || !in.has("rejoin"), "rejoin",
               "permanently lost hardware does not return; give `until`.");
      if (!out.for_good()) {
        out.rejoin = to_ticks(in.read<Seconds>(kFaultKeys["rejoin"]));
      }
    }
    return;
  }
  if (out.nic < 0) {
    out.speed = read_speed(in, kFaultKeys["speed"]);
  }
  out.link_speed = read_speed(in, kFaultKeys["link_speed"]);
  in.check(out.speed < 1.0 || out.link_speed < 1.0, "speed",
           "a fault sets `speed` or `link_speed` below 1, or `lost: true` for failed hardware.");
}

Fault read_fault(ConfigReader& in, std::span<const FaultySide> instances) {
  Fault out;
  out.at = to_ticks(in.read<Seconds>(kFaultKeys["at"]));
  if (const auto until = in.maybe<Seconds>(kFaultKeys["until"])) {
    out.until = to_ticks(*until);
    in.check(out.until > out.at, "until", "a fault ends after it began (`at`).");
  }
  read_place(in, instances, out);
  read_effect(in, out);
  in.finish();
  return out;
}

// Whether a GPU of the instance is left when all has happened.
bool any_left(std::span<const Fault> faults, int instance, const ClusterSpec& cluster) {
  for (int g = 0; g < cluster.gpus(); ++g) {
    if (std::none_of(faults.begin(), faults.end(), [&](const Fault& f) {
          return f.instance == instance && f.takes_gpus() && f.for_good() && f.covers(g);
        })) {
      return true;
    }
  }
  return false;
}

void check_some_survive(const ConfigReader& root, std::span<const Fault> faults,
                        std::span<const FaultySide> instances) {
  for (const FaultySide& side : instances) {
    bool left = false;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      left = left || (instances[i].role == side.role && any_left(faults, static_cast<int>(i), instances[i].cluster));
    }
    root.check(left, "faults",
               side.role == InstanceRole::kWhole
                   ? "all GPUs are lost in the end; at least one has to survive."
                   : fmt::format("every {} instance is lost in the end; at least one has to survive.",
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

std::span<const Key> fault_keys() { return kFaultKeys; }

int lost_nics(std::span<const Fault> faults, Ticks now, int instance, int first_gpu, int nics) {
  int count = 0;
  for (int k = 0; k < nics; ++k) {
    count += std::any_of(faults.begin(), faults.end(), [&](const Fault& f) {
      return f.lost && f.nic == k && f.instance == instance && f.first_gpu == first_gpu && f.holds_at(now);
    });
  }
  return count;
}

std::vector<Fault> read_faults(ConfigReader& root, std::span<const FaultySide> instances) {
  std::vector<Fault> out;
  if (root.has("faults")) {
    for (ConfigReader& in : root.list_of_sections(kRootKeys["faults"])) {
      out.push_back(read_fault(in, instances));
    }
    check_some_survive(root, out, instances);
    check_nics_left(root, out, instances);
  }
  return out;
}

}  // namespace epsim
