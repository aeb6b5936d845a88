// SGLang's expert-load file: {"logical_count": [layer][expert]}, or [step][layer][expert], which is summed over steps.
#pragma once

#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"
#include "traces/format/text_input.h"

namespace epsim {

// Counts are assignments (tokens x top-k). Rows are the model's layers, in which dense layers must be all zero, or its
// MoE layers alone. Read as a stream: memory is bounded by one window. Throws InputError on broken JSON, other shapes,
// negative or non-finite counts, and MoE layers without load.
LoadWindow read_sglang_counts(ByteInput& input, const MoeSpec& model);

}  // namespace epsim
