// How a policy plans again while a run goes on: the section `rebalance` of its entry.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "policies/rebalance/keep_in_place.h"
#include "policies/rebalance/rules.h"
#include "sim/core/config.h"
#include "sim/core/units.h"
#include "sim/scheduler/engine_profile.h"

namespace epsim {

struct RebalanceOptions {
  std::shared_ptr<const RebalanceRule> rule;
  bool background = false;       // mode async: steps go on while weights move
  std::int64_t window = 1000;    // steps whose loads are planned from, the latest ones
  Seconds planning_time{0.042};  // of one plan
  int layers_per_chunk = 0;      // layers that move between two steps (sync), or switch in one (async); 0 = all
  double move_efficiency = 1;    // of the rate that token exchanges reach; engines' moves may be slower
  Seconds layer_time{};          // sync: of the hosts, for each layer that moves
  double link_share = 0.5;       // async: of every link, for weights while tokens are exchanged
  std::optional<Keep> keep = Keep::kSlots;
};

// Keys besides those of the rule. Sources of the defaults: window: vLLM's, and the interval in SGLang, whose recorder is
// emptied at each look (expert_distribution_recorder_buffer_size); planning_time:
// SGLang's list variant of EPLB for 58 layers, 256 experts and 320 slots on one core; layers_per_chunk: SGLang's
// eplb_rebalance_layers_per_chunk, and the one buffer of vLLM's asynchronous transfer; move_efficiency: weights travel as fast as NCCL's all-to-all does;
// layer_time: the engine's (EngineProfile::rebalanced_layer); keep: as vLLM.
std::span<const Key> rebalance_keys();

// Reads them, and those of the rule; calls finish().
RebalanceOptions read_rebalance(ConfigReader in, const EngineProfile& engine);

}  // namespace epsim
