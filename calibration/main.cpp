// The program `epsim-calibrate`: so far it tells which devices there are to measure on.
#include <fmt/format.h>

#include <iostream>

#include "calibration/device.h"

int main() {
  const epsim::DeviceReport report = epsim::query_devices();
  std::cout << fmt::format("CUDA runtime {}.{}, driver supports {}.{}\n", report.runtime_version / 1000,
                           report.runtime_version % 1000 / 10, report.driver_version / 1000,
                           report.driver_version % 1000 / 10);
  if (!report.waived.empty()) {
    std::cout << "waived: " << report.waived << "\n";
    return 0;
  }
  for (const epsim::DeviceInfo& device : report.devices) {
    std::cout << fmt::format("{}: compute capability {}.{}, {} multiprocessors, {:.2f} GiB, ECC {}\n", device.name,
                             device.compute_major, device.compute_minor, device.multiprocessors,
                             epsim::to_gib(device.memory), device.ecc ? "on" : "off");
  }
  return 0;
}
