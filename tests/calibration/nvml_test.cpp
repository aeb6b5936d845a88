// Clocks and ECC through a management library that is found when the program runs: here a made-up one.
#include "calibration/measure/nvml.h"

#include <doctest/doctest.h>

#include "tests/support/errors.h"

namespace epsim::test {
namespace {

using namespace measure;

TEST_CASE("answers come from the library") {
  const Nvml nvml("00000000:01:00.0", EPSIM_FAKE_NVML);
  CHECK(nvml.problem() == "");
  CHECK(nvml.driver_version() == "580.0");
  CHECK(nvml.ecc() == "on");
  const NvmlState s = nvml.state();
  CHECK(s.sm_mhz == 1410);
  CHECK(s.throttle == 0x24);  // 0x27 without idle (1) and applications clocks (2)
}

TEST_CASE("without the library, or with a GPU it does not know, nothing is known and nothing breaks") {
  const Nvml missing("0", "libnvidia-ml-not-there.so");
  check_contains(missing.problem(), {"no libnvidia-ml-not-there.so"});
  CHECK(missing.ecc() == "not known");
  CHECK(missing.driver_version() == "");
  CHECK(missing.state().sm_mhz == 0);
  const Nvml other("00000000:99:00.0", EPSIM_FAKE_NVML);
  check_contains(other.problem(), {"does not know the GPU"});
  CHECK(other.ecc() == "not known");
  CHECK(other.driver_version() == "580.0");
}

}  // namespace
}  // namespace epsim::test
