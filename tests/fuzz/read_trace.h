// Reads what a trace file says it has, as far as that is small.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

#include "sim/core/error.h"
#include "traces/format/trace_file.h"

namespace epsim::fuzz {

// InputError is a fine answer.
inline void read_trace(const std::filesystem::path& file) {
  constexpr std::size_t kMostRow = 1 << 20;  // rows that a header makes up may be large; they are read in blocks anyway
  try {
    const TraceFile trace(file);
    if (trace.load_rows() > 0 && trace.load_row_size() <= kMostRow) {
      std::vector<double> counts(trace.load_row_size());
      std::vector<std::int64_t> tokens(static_cast<std::size_t>(trace.sources()));
      trace.read_loads<double>(0, 1, counts, tokens);
    }
    if (trace.token_count() > 0) {
      TraceFile::Tokens tokens;
      trace.read_tokens(0, std::min<std::int64_t>(trace.token_count(), 16), tokens);
    }
    if (trace.has_requests()) {
      trace.requests();
    }
  } catch (const InputError&) {
  }
}

}  // namespace epsim::fuzz
