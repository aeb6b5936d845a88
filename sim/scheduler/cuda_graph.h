// What CUDA graphs and scheduling add to a step: padding of the ranks' batches, and time between steps.
//
//   Models : replay where all ranks together or the longest fits a captured size, all padded to it, idle ranks too; gaps as declared.
//   Ignores: what padding changes in the memory traffic of attention (padded sequences have no context); that padded
//            tokens may share experts (where an engine does not mask them, they are routed like any token).
#pragma once

#include <span>

#include "sim/core/units.h"
#include "sim/domain/step.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// Whether a replayed step of these batches runs shared experts on a stream of their own.
bool shared_beside(const ServingOptions& options, std::span<const RankBatch> ranks);

// Pads the batches of a step that a CUDA graph replays; false when the step runs kernel by kernel.
bool replay_padded(const GraphOptions& options, std::span<RankBatch> ranks);

// The declared time that a step takes beside its price, and that of the host where its schedule does not overlap.
Seconds declared_gap(const ServingOptions& options, bool replayed);
Seconds schedule_gap(const ServingOptions& options);

}  // namespace epsim
