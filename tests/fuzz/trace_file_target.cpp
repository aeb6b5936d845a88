// Fuzz target of the project's own format: any bytes are read as a trace, or end in an InputError.
#include <cstdint>

#include "tests/fuzz/input_folder.h"
#include "tests/fuzz/read_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const epsim::fuzz::InputFolder folder;
  epsim::fuzz::read_trace(folder.write("input.h5", data, size));
  return 0;
}
