// Plans in the files that serving engines load. plan_formats.md names the engine versions whose source was read, and
// what each format cannot hold.
#pragma once

#include <string>
#include <vector>

#include "sim/domain/placement_plan.h"

namespace epsim {

// Which layers of the model the plan's layers are; engines count all layers.
struct ModelLayers {
  std::vector<int> numbers;  // [layer of the plan] number in the model, 0-based
  int count = 0;             // layers of the model, dense ones included
};

// Names for --format, `epsim` (the plan file itself) left out.
std::vector<std::string> engine_formats();

// The plan as a whole file in `format`, one of the above. Throws InputError when the plan is something that the format
// cannot hold: GPUs or layers with different numbers of slots, and for vllm-ascend two copies of an expert on one GPU.
std::string export_plan(const PlacementPlan& plan, const ModelLayers& layers, const std::string& format);

}  // namespace epsim
