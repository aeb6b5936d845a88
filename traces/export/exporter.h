// Traces written in other programs' formats, so that what was imported can go back.
#pragma once

#include <ostream>
#include <span>
#include <string_view>

#include "traces/format/trace_file.h"

namespace epsim {

struct TraceExporter {
  std::string_view name, summary;
  void (*run)(const TraceFile& trace, std::ostream& out);
};

std::span<const TraceExporter> trace_exporters();

// Writes the trace in the named format. Throws InputError when it lacks what the format holds (load rows or tokens).
void export_trace(const TraceFile& trace, const std::string& format, std::ostream& out);

}  // namespace epsim
