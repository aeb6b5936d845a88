// The designs that a capacity search goes through.
#pragma once

#include "sim/study/capacity_result.h"
#include "sim/verbs/capacity_given.h"

namespace epsim {

// Every layout of the space into the question. Left out are attention groups larger than a node but a dense model's, parts
// of a node that do not divide its GPUs or are of prefill or decode alone, and what needs a network that a node lacks.
void read_space(CapacityGiven& given, CapacityQuestion& question, bool quick);

}  // namespace epsim
