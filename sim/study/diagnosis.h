// Whether a deployment should balance its experts, told from windows of recorded counts: how skewed they are, how long a
// plan lasts, what placement, copies and perfect balance bring in saturation, and what planning again costs.
//
//   Models : how long a plan lasts: on counts that are not those it was made from, so that short windows' noise does not
//            pass for drift.
//            Saturation: requests that fill the KV cache twice, all at once, the same for every policy of a seed; steps
//            that draw their tokens around the mean of the windows that the run is scored on.
//   Ignores: bursts inside a window; drift between the windows that are scored together.
//   Source : the questions of users of EPLB; planning on one window and scoring on another as vllm-ascend's screening
//            (RFC 16795) does.
#pragma once

#include <span>
#include <vector>

#include "sim/cluster/run_control.h"
#include "sim/domain/load_window.h"
#include "sim/scenario/scenario.h"
#include "sim/study/diagnosis_result.h"

namespace epsim {

// `by_seed` are alike but for the seed. Their policies are diagnosed_policies() (policies/registry.h) in that order; plans
// are made from the first `planned` of the windows, and their loads are those of the others, or of the same where there
// are no others. Throws InputError, DoesNotFit, StudyInterrupted.
Diagnosis diagnose(std::vector<Scenario> by_seed, std::span<const LoadWindow> windows, std::size_t planned,
                   const RunControl& control);

// The windows that the runs are scored on, as one.
LoadWindow scored_window(std::span<const LoadWindow> windows, std::size_t planned);

}  // namespace epsim
