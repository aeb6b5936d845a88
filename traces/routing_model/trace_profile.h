// The statistics of a routing trace that matter for expert parallelism.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "traces/format/statistics.h"
#include "traces/format/trace.h"

namespace epsim {

inline constexpr int kProfileBatches[] = {64, 256, 1024, 4096};  // consecutive tokens

// Hottest expert over the mean, of batches: over all batches and layers, and the mean by layer.
struct BatchProfile {
  int tokens = 0;
  std::int64_t batches = 0;
  double mean = 0, p50 = 0, p95 = 0;
  std::vector<double> by_layer;
};

struct TraceProfile {
  TraceInfo info;
  std::int64_t tokens = 0, rows = 0;        // single tokens; load rows
  std::vector<LayerSkew> layers;            // of the whole trace, see statistics.h
  std::vector<std::vector<double>> counts;  // [layer][expert]
  // Of traces with tokens; batches that do not fill up are left out, so sizes above the trace's are missing.
  std::vector<BatchProfile> batches;
  // Mean number of experts that a token shares with the one before it (lag 1) and 8 before it, same sequence and layer.
  std::optional<double> overlap_1, overlap_8;
  // Total variation distance (0 to 1) between the pairs of experts that a token uses and independent pairs of the same
  // popularity: within a layer (co-activation), and between a layer and the next. Mean over layers.
  std::optional<double> affinity, next_layer;
  // Correlation of an expert's share between consecutive rows (load rows, sources summed; without them, batches of 256
  // tokens); mean over layers, experts weighted by their variance. Absent with fewer than 3 rows.
  std::optional<double> autocorrelation;
  // Hottest expert over the mean of single load rows, sources summed; mean over rows and layers.
  std::optional<double> row_max_over_mean;
};

// Takes a trace and profiles it in one pass; memory: a few experts x experts tables per layer (up to 512 experts, and
// of the first 2^18 tokens; above, affinity and next_layer stay absent).
class TraceProfiler final : public TraceSink {
 public:
  // `pairs`: affinity and next_layer are wanted (the costly part).
  explicit TraceProfiler(bool pairs = true);
  ~TraceProfiler() override;
  void begin(const TraceInfo& info, int sources) override;
  void loads(const LoadRow& row) override;
  void tokens(const TokenBlock& block) override;
  void table(const std::string&, const Table&) override {}
  TraceProfile finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace epsim
