#include "sim/serving/faults.h"

#include <fmt/format.h>

#include <algorithm>

namespace epsim {
namespace {

double read_speed(ConfigReader& in, const std::string& key) {
  const double speed = in.optional<double>(key, 1.0);
  in.check(speed > 0, key, "lost hardware is not simulated, only slowed: a share of its speed above 0.");
  in.check(speed <= 1.0, key, "a share of its speed is at most 1.");
  return speed;
}

Fault read_fault(ConfigReader& in, const ClusterSpec& cluster) {
  Fault out;
  out.at = to_ticks(in.required<Seconds>("at"));
  if (const auto until = in.maybe<Seconds>("until")) {
    out.until = to_ticks(*until);
    in.check(out.until > out.at, "until", "a fault ends after it began (`at`).");
  }
  const auto gpu = in.maybe<int>("gpu"), node = in.maybe<int>("node");
  in.check(gpu.has_value() != node.has_value(), "gpu", "a fault names either a `gpu` or a `node`.");
  if (gpu) {
    in.check(*gpu < cluster.gpus(), "gpu", fmt::format("the GPUs are numbered 0 to {}.", cluster.gpus() - 1));
    out.first_gpu = *gpu;
  } else {
    in.check(*node < cluster.nodes, "node", fmt::format("the nodes are numbered 0 to {}.", cluster.nodes - 1));
    out.first_gpu = *node * cluster.node.gpus;
    out.gpus = cluster.node.gpus;
  }
  out.speed = read_speed(in, "speed");
  out.link_speed = read_speed(in, "link_speed");
  in.check(out.speed < 1.0 || out.link_speed < 1.0, "speed",
           "a fault slows something: `speed` or `link_speed` below 1.");
  in.finish();
  return out;
}

bool holds(const Fault& fault, Ticks now) { return fault.at <= now && now < fault.until; }

void slow(std::vector<double>& speeds, const Fault& fault, double speed, int gpus) {
  if (speed == 1.0) {
    return;
  }
  speeds.resize(static_cast<std::size_t>(gpus), 1.0);
  for (int g = fault.first_gpu; g < fault.first_gpu + fault.gpus; ++g) {
    speeds[static_cast<std::size_t>(g)] *= speed;
  }
}

}  // namespace

std::vector<Fault> read_faults(ConfigReader& root, const ClusterSpec& cluster) {
  std::vector<Fault> out;
  if (root.has("faults")) {
    for (ConfigReader& in : root.list_of_sections("faults")) {
      out.push_back(read_fault(in, cluster));
    }
  }
  return out;
}

StepConditions conditions_at(const std::vector<Fault>& faults, Ticks now, int gpus) {
  StepConditions out;
  for (const Fault& fault : faults) {
    if (holds(fault, now)) {
      slow(out.gpu_speed, fault, fault.speed, gpus);
      slow(out.link_speed, fault, fault.link_speed, gpus);
    }
  }
  return out;
}

void FaultyPricer::advance_to(Ticks now) {
  std::vector<bool> active;
  for (const Fault& fault : faults_) {
    active.push_back(holds(fault, now));
  }
  if (active != active_) {
    pricer_.set_conditions(conditions_at(faults_, now, gpus_));
    active_ = std::move(active);
  }
  pricer_.advance_to(now);
}

}  // namespace epsim
