// A deployment of a capacity search as a scenario.
#pragma once

#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/core/units.h"
#include "sim/scenario/new_scenario.h"
#include "sim/study/capacity_result.h"

namespace epsim {

// The document of such pools: one, or prefill and decode. Throws InputError.
Config capacity_scenario(const CapacityQuestion& question, const std::vector<CapacityPool>& pools);

// What operators set where the engine's default leaves little of the memory to weights and KV cache (SGLang reserves its
// largest graph times the DP ranks: of an H200 all with 64): the largest of 256, 128, ... that leaves half. Empty: the
// default does, none of them does, or the settings decide.
std::vector<std::string> knobs_for_memory(const CapacityQuestion& question, CapacityDesign design);

// Conversations begin with none open: sets a count with which requests come for twice as long as it takes until as many
// are open as later, and returns that time; 0, and nothing set, where requests are others or would be too many.
Seconds outlast_ramp(Config& config);

// What epsim init makes of a layout: the dtype of its weights, and why.
NewScenario usual_scenario(const CapacityQuestion& question, const CapacityDesign& design);

// Those that a layout can have: without EP ranks only the one that leaves experts in order.
std::vector<std::string> policies_of(const CapacityDesign& layout, std::vector<std::string> policies);

// Why such a scenario cannot run, without its file and line, which no user wrote.
std::string refusal(const InputError& error);

}  // namespace epsim
