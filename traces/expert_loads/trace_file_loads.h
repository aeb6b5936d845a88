// Expert loads from a trace in the project's own format (FORMAT.md).
//
// Keys: path; batch_tokens (default 256): of a trace with tokens alone, how many consecutive ones make a step.
#pragma once

#include <memory>

#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/step_loads.h"

namespace epsim {

// Also reads `batches` (default false): keep the rows apart, for policies that plan from single batches. Where the file
// has tokens, the window also knows which experts serve the same ones.
LoadWindow make_trace_window(ConfigReader& in, const MoeSpec& model, Seed seed);
// Also reads `sources`: keep (default), or sum: all source ranks of a row are one mix.
std::unique_ptr<ExpertLoadSource> make_trace_replay(ConfigReader& in, const MoeSpec& model, Seed seed);

}  // namespace epsim
