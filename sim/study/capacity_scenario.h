// A deployment of a capacity search as a scenario.
#pragma once

#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/study/capacity_result.h"

namespace epsim {

// The document of such pools: one, or prefill and decode. Throws InputError.
Config capacity_scenario(const CapacityQuestion& question, const std::vector<CapacityPool>& pools);

// Why such a scenario cannot run, without its file and line, which no user wrote.
std::string refusal(const InputError& error);

}  // namespace epsim
