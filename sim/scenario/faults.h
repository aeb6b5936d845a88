// Hardware that slows down or goes during a run: the scenario's `faults:`, a list of
//
//   {at: 10s, gpu: 3, speed: 0.5}                         everything on GPU 3 takes twice as long from 10 s on
//   {at: 20s, until: 30s, node: 1, link_speed: 0.25}      ports and NICs of a node at a quarter of their rate
//   {at: 20s, until: 30s, node: 1, nic: 2, lost: true}    a NIC is gone, the node's others carry its traffic too
//   {at: 40s, gpu: 3, lost: true, recovery: 5s}           a GPU is gone for good; also node, or instance alone
//   {at: 40s, until: 90s, gpu: 3, lost: true, rejoin: 8s} and back, with memory as empty as at the start
//
//   Models : GPUs and links at a share of their speed, from the first step, or transfer of a prompt to a decode
//            instance, that begins at or after `at` to the last that begins before `until`. Faults of one GPU multiply.
//            A rank waits for its slowest GPU, an exchange for its busiest link, so one straggler slows the instance.
//            What becomes of the instance: sim/cluster/hardware_change.h.
//   Ignores: copies of weights by per-step policies, which keep the full rate of their links.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/units.h"
#include "sim/domain/cluster_spec.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

struct Fault {
  Ticks at{};
  Ticks until{std::numeric_limits<std::int64_t>::max()};  // not included
  int first_gpu = 0, gpus = 1;
  double speed = 1.0, link_speed = 1.0;
  int instance = 0;
  int nic = -1;  // a NIC of that node alone
  bool lost = false;
  Ticks recovery{}, rejoin{};  // of lost GPUs: for which the instance stands when they go, and when they are back
  bool for_good() const { return until == Ticks{std::numeric_limits<std::int64_t>::max()}; }
  bool takes_gpus() const { return lost && nic < 0; }
  bool holds_at(Ticks now) const { return at <= now && now < until; }
  bool covers(int gpu) const { return first_gpu <= gpu && gpu < first_gpu + gpus; }
};

// What faults may name.
struct FaultySide {
  ClusterSpec cluster;
  InstanceRole role = InstanceRole::kWhole;
};

// Keys of one fault.
std::span<const Key> fault_keys();

// Reads the list `faults` of the scenario; none by default. `instances`: all of the deployment. Throws InputError, also
// when no GPU is left in the end.
std::vector<Fault> read_faults(ConfigReader& root, std::span<const FaultySide> instances);

// NICs of the node that begins with `first_gpu` that are gone at `now`, each counted once; a node has `nics`.
int lost_nics(std::span<const Fault> faults, Ticks now, int instance, int first_gpu, int nics);

}  // namespace epsim
