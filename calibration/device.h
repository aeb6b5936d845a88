// The CUDA devices of this machine: the provenance that every measurement carries.
#pragma once

#include <string>
#include <vector>

#include "sim/core/units.h"

namespace epsim {

struct DeviceInfo {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  Bytes memory{};      // total, as the driver reports it
  bool ecc = false;
};

struct DeviceReport {
  int driver_version = 0, runtime_version = 0;  // CUDA's encoding: 1000 * major + 10 * minor
  std::vector<DeviceInfo> devices;
  std::string waived;  // why there is no device to measure on; empty when there is one
};

// Asks the CUDA runtime; never throws for a missing driver or device, which is the `waived` case.
DeviceReport query_devices();

}  // namespace epsim
