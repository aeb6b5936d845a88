// The demand of a capacity study: a rate with lengths, clients in a closed loop, or a scenario's requests.
#pragma once

#include "sim/study/capacity_cost.h"
#include "sim/study/capacity_result.h"
#include "sim/verbs/capacity_given.h"

namespace epsim {

// Returns the rate in requests/s that is asked for, before `growth` (a share). Sets the question's rate and settings of
// `requests`, and the plan's demand in words; the question has its SLO and settings. Throws InputError.
double read_demand(CapacityGiven& given, double growth, CapacityQuestion& question, CapacityPlan& plan);

}  // namespace epsim
