// A batch as layers see it whose attention does not reach all tokens.
//
//   Models : how many cached tokens a rank's decodes read, and which query-key pairs its prompts have, where a query
//            attends to the last `tokens`, to its own chunk of `tokens`, or to `tokens` that are picked.
//   Ignores: mixed lengths: a batch counts as sequences of its mean length, as in fitted_compute.h. Decodes beyond
//            their first chunk are anywhere in their chunk, half of it on average.
#pragma once

#include "sim/domain/moe_spec.h"
#include "sim/domain/step.h"

namespace epsim {

// With the pairs and contexts that layers of this reach work on; the same batch where everything is within reach. Not
// for linear attention, which has no pairs.
RankBatch within_reach(const RankBatch& batch, const AttentionLayers& layers);

}  // namespace epsim
