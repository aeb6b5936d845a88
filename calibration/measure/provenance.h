// Where and when a measurement is made, as far as the host knows; the device adds GPU, driver and libraries.
#pragma once

#include <string>

#include "calibration/points.h"

namespace epsim::measure {

// git_revision (of the sources this program was built from), date (UTC, ISO 8601) and host. `machine` names the
// profile.
Provenance host_provenance(const std::string& machine);

// A profile's name from a GPU's: "NVIDIA H200" gives "h200", "NVIDIA A100-SXM4-80GB" gives "a100-sxm4-80gb".
std::string machine_name(const std::string& gpu);

// A version as CUDA, NCCL and cuBLAS encode theirs: 1000 * major + 10 * minor, and 10000 * major + 100 * minor + patch.
std::string cuda_version_text(int encoded);
std::string library_version_text(int encoded);

}  // namespace epsim::measure
