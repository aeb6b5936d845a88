// Fuzz target of scenarios: any text either reads as a scenario or ends in an InputError.
#include <cstdint>
#include <string>

#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/scenario/read_scenario.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    epsim::read_scenario(epsim::Config::from_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml"), {});
  } catch (const epsim::InputError&) {
  }
  return 0;
}
