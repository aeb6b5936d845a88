// How a policy plans again while a run goes on: the section `rebalance` of its entry.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "policies/rebalance/keep_in_place.h"
#include "policies/rebalance/rules.h"
#include "sim/core/config.h"
#include "sim/core/units.h"

namespace epsim {

struct RebalanceOptions {
  std::shared_ptr<const RebalanceRule> rule;
  bool background = false;       // mode async: steps go on while weights move
  std::int64_t window = 1000;    // steps whose loads are planned from, the latest ones
  Seconds planning_time{0.042};  // of one plan
  int layers_per_chunk = 0;      // sync: layers that move between two steps; 0 = all
  double move_efficiency = 1;    // of the rate that token exchanges reach; engines' moves may be slower
  double link_share = 0.5;       // async: of every link, for weights while tokens are exchanged
  std::optional<Keep> keep = Keep::kSlots;
};

// Keys: rule (a name of `epsim list policies`) and its options; mode (sync | async; sync); window (1000 steps: the
// buffers of SGLang and vLLM); planning_time (42ms: SGLang's list variant of EPLB for 58 layers, 256 experts and 320
// slots on one core); layers_per_chunk for sync (all; SGLang's eplb_rebalance_layers_per_chunk); link_share for async
// (0.5); move_efficiency (1: weights travel as fast as NCCL's all-to-all does); keep (none | slots | gpus |
// gpus_in_node; slots, as vLLM). Calls finish().
RebalanceOptions read_rebalance(ConfigReader in);

}  // namespace epsim
