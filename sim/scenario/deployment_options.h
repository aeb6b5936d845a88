// How many instances serve a scenario, and what each of them does.
#pragma once

#include <vector>

#include "models/memory/memory_model.h"
#include "models/step/layer_costs.h"
#include "sim/core/choice.h"
#include "sim/core/units.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/parallelism.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// Instances that are alike: their hardware and layout, with a KV pool of its own size.
struct InstancePool {
  InstanceRole role = InstanceRole::kWhole;
  int instances = 1;
  ClusterSpec cluster;  // of one instance
  Parallelism parallelism;
  MemoryOptions memory;
  DispatchOptions dispatch;
  ServingOptions serving;
};

// What becomes of experts that lose copies with hardware (sim/cluster/expert_recovery.h).
enum class AfterLoss {
  kKeep,    // the copies that are left serve; without one the instance is lost
  kRepair,  // an expert without a copy takes a slot of one with several, and is loaded from outside
  kReplan   // all slots that are left are planned anew, and weights move
};
template <>
inline constexpr auto kNames<AfterLoss> =
    choice<AfterLoss>({{"keep", AfterLoss::kKeep}, {"repair", AfterLoss::kRepair}, {"replan", AfterLoss::kReplan}});

struct DeploymentOptions {
  Router router = Router::kRoundRobin;  // which instance takes a request
  // Empty: one instance, as the scenario's own sections describe it. One pool: several of these. Two: those that
  // prefill, and those that decode.
  std::vector<InstancePool> pools;
  int retry_limit = 3;  // times that a request starts anew when its rank is lost
  AfterLoss after_loss = AfterLoss::kKeep;
  BytesPerSecond reload_rate{};  // of each GPU, from outside; 0 = lost weights are nowhere to be had
  bool single() const { return pools.empty(); }
};

}  // namespace epsim
