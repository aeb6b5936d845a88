// Readers of other programs' routing recordings: each turns one format into a trace.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "traces/import/import_options.h"

namespace epsim {

struct TraceImporter {
  std::string_view name, summary;
  // Whether a file looks like this format, from its name and its first bytes (gunzipped).
  bool (*recognises)(const std::filesystem::path& file, std::string_view head);
  void (*run)(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink);
};

std::span<const TraceImporter> trace_importers();

// Reads `file` in the named format, or in the first one that recognises it when `format` is "auto". Throws InputError.
void import_trace(const std::filesystem::path& file, const std::string& format, const ImportOptions& options,
                  TraceSink& sink);

}  // namespace epsim
