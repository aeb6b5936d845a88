// Fuzz target of the project's own format: any bytes are read as a trace, or end in an InputError.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/core/error.h"
#include "tests/fuzz/input_folder.h"
#include "traces/format/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const epsim::fuzz::InputFolder folder;
  const std::filesystem::path file = folder.write("input.h5", data, size);
  constexpr std::size_t kMostRow = 1 << 20;  // rows that a header makes up may be large; they are read in blocks anyway
  try {
    const epsim::TraceFile trace(file);
    if (trace.load_rows() > 0 && trace.load_row_size() <= kMostRow) {
      std::vector<double> counts(trace.load_row_size());
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(trace.sources()));
      trace.read_loads<double>(0, 1, counts, tokens);
    }
    if (trace.token_count() > 0) {
      epsim::TraceFile::Tokens tokens;
      trace.read_tokens(0, std::min<std::int64_t>(trace.token_count(), 16), tokens);
    }
    if (trace.has_requests()) {
      trace.requests();
    }
  } catch (const epsim::InputError&) {
  }
  return 0;
}
