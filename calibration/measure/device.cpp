#include "calibration/measure/device.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace epsim::measure {
namespace {

// Dense bf16 tensor-core operations per clock and multiprocessor, a fused multiply-add counting as two. Derived from
// the data sheets: A100 312 TF/s = 108 x 1.41 GHz x 2048; H100 989 TF/s = 132 x 1.83 GHz x 4096; L40S 362 TF/s = 142
// x 2.52 GHz x 1024; B200 2.25 PF/s = 148 x 1.85 GHz x 8192.
double bf16_per_clock(int major, int minor) {
  switch (major * 10 + minor) {
    case 80:
      return 2048;
    case 86:
    case 89:
      return 1024;
    case 90:
      return 4096;
    case 100:
    case 103:
      return 8192;
    default:
      return 0;
  }
}

}  // namespace

FlopsPerSecond GpuFacts::peak(std::string_view dtype) const {
  const double bf16 = bf16_per_clock(compute_major, compute_minor) * multiprocessors * clock_mhz * 1e6;
  if (dtype == "fp8") {
    return FlopsPerSecond(has_fp8() ? 2 * bf16 : 0);
  }
  return FlopsPerSecond(bf16);
}

BytesPerSecond GpuFacts::memory_peak() const {
  return BytesPerSecond(2 * memory_clock_mhz * 1e6 * memory_bus_bits / 8);
}

Seconds SteadyClock::now() const { return std::chrono::steady_clock::now().time_since_epoch(); }

int rotating_sets(Bytes one_set, Bytes l2, Bytes free_memory, int most) {
  if (!(one_set.count() > 0)) {
    return 1;
  }
  const double wanted = std::ceil(2 * (l2 / one_set)) + 1;
  const double fit = std::floor(0.5 * (free_memory / one_set));
  return static_cast<int>(std::clamp(std::min(wanted, fit), 1.0, static_cast<double>(most)));
}

}  // namespace epsim::measure
