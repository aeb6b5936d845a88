// The folder of a capacity study.
#pragma once

#include <filesystem>

#include "sim/study/capacity.h"

namespace epsim {

// capacity.json, the tables and report.html; of a feasible answer also recommended.yaml and what launches it, in place
// of what an earlier answer left. Throws RunFailed.
void write_capacity(const std::filesystem::path& folder, const CapacityPlan& plan, const CapacityQuestion& question);

}  // namespace epsim
