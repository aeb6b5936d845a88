// libFuzzer's entry for one reader, named by EPSIM_FUZZ_FORMAT at compile time. An exception that escapes is a finding.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/requests_targets.h"

namespace {

const epsim::fuzz::Target* wanted() {
  for (const epsim::fuzz::Target& target : epsim::fuzz::request_targets()) {
    if (std::strcmp(target.name, EPSIM_FUZZ_FORMAT) == 0) {
      return &target;
    }
  }
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const epsim::fuzz::Target* const target = wanted();
  target->run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
