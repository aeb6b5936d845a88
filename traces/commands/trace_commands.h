// What `epsim trace` does with trace files, as functions: look, import, cut, convert, fit, compare, generate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "sim/core/rng.h"
#include "traces/format/trace_file.h"
#include "traces/import/importer.h"
#include "traces/routing_model/compare.h"
#include "traces/routing_model/routing_model.h"

namespace epsim {

// Shape, totals, skew (the figures of statistics.h) and a bar of max / mean by layer, for a terminal of `width`
// columns, under the title.
std::string trace_summary(const TraceFile& trace, const std::string& title, int width = 100);

// The same figures as a JSON object, shares of the hottest experts and max / mean by layer included.
std::string trace_summary_json(const TraceFile& trace);

// The load of every layer (rows) and expert (columns) over the layer's mean, as a picture: white at 0, the mean pale,
// dark at four times the mean and above. A cell's title gives its figures. `every`: 2 draws every second layer.
std::string trace_heatmap_svg(const TraceFile& trace, int every = 1);

// Reads another program's recording into a trace file.
void trace_import(const std::filesystem::path& from, const std::string& format, const ImportOptions& options,
                  const std::filesystem::path& to);

// Writes a trace in another program's format; the file appears whole or not at all.
void trace_convert(const std::filesystem::path& from, const std::string& format, const std::filesystem::path& to);

// What to keep. Layers are model layer numbers; none stated keeps all.
struct TraceSlice {
  std::int64_t first_row = 0, rows = std::numeric_limits<std::int64_t>::max();
  std::int64_t first_token = 0, tokens = std::numeric_limits<std::int64_t>::max();
  std::vector<int> layers{};
};
// The table of sequences stays, with first_row, num_tokens and positions (first_token_pos, last_token_pos) as they now
// are. Requests are kept whole. Throws InputError when nothing is left, or a layer, row or token is not in the trace.
void trace_slice(const std::filesystem::path& from, const TraceSlice& slice, const std::filesystem::path& to);

// A trace as a file in our format: the file itself, or, for another program's recording, an import of it in a temporary
// folder that lasts as long as the object.
class OpenedTrace {
 public:
  OpenedTrace(const std::string& file, const std::string& format, const ImportOptions& import);
  const std::filesystem::path& path() const { return path_; }
  bool imported() const { return folder_.has_value(); }

 private:
  std::filesystem::path path_;
  std::optional<TemporaryFolder> folder_;  // of the import
};

// Fits a routing model to a trace in our format.
RoutingModel trace_fit(const std::filesystem::path& from, const std::string& name);

TraceProfile trace_profile(const std::filesystem::path& from);

// A comparison of two traces' profiles as a JSON object; `by_layer`: with max / mean of every layer.
std::string trace_comparison_json(const ProfileComparison& compared, const TraceProfile& a, const TraceProfile& b,
                                  bool by_layer);

struct GenerateRequest {
  std::string model;                   // a model file, or the name of a preset
  std::optional<std::int64_t> rows{};  // load rows, or else single tokens: exactly one of the two
  std::optional<std::int64_t> tokens{};
  int sources = 8;                     // source ranks of a row
  std::int64_t tokens_per_row = 4096;  // of each source
  Seed seed{1};
};
// Writes a trace drawn from a routing model. Throws InputError.
void trace_generate(const GenerateRequest& request, const std::filesystem::path& to);

}  // namespace epsim
