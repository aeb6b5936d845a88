// Plans as files: what `epsim plan` writes and reads back. plan_formats.md describes every key.
#pragma once

#include <string>
#include <vector>

#include "sim/domain/placement_plan.h"

namespace epsim {

// The three maps of a plan as JSON members, one line per layer, without the braces around them: "phy2log"
// [layer][slot], "log2phy" [layer][expert][copy], "logcnt" [layer][expert], and "slots" [layer][GPU] where the GPUs do
// not all have equally many.
std::string plan_maps_json(const PlacementPlan& plan);

// Whether every GPU has as many slots as every other, in every layer.
bool is_uniform(const PlacementPlan& plan);

// A plan from the text of such a file; other keys than num_experts, num_gpus, policy and the maps are passed over.
// `name` stands for the file in messages. Throws InputError for broken JSON, for maps that contradict each other and
// for experts without a copy.
PlacementPlan parse_plan(const std::string& text, const std::string& name);

}  // namespace epsim
