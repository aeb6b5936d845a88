// Fuzz target of one reader of a list (targets.h, reader.h). An exception that escapes is a finding.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/reader.h"
#include "tests/fuzz/targets.h"

namespace {

const epsim::fuzz::Target* wanted() {
  for (const epsim::fuzz::Target& target : epsim::fuzz::targets()) {
    if (target.name == epsim::fuzz::reader()) {
      return &target;
    }
  }
  std::abort();  // no such reader
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) { return epsim::fuzz::set_reader(*argc, *argv); }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const epsim::fuzz::Target* const target = wanted();
  target->run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
