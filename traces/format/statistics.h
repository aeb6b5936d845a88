// Figures that describe how uneven expert loads are.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "sim/domain/load_window.h"
#include "traces/format/trace_file.h"

namespace epsim {

// Sizes of the GPU group for which balancedness is stated.
inline constexpr std::array<int, 5> kBalancednessGpus = {8, 16, 32, 64, 128};

// One layer. Shares are of the layer's load; a layer without load counts as uniform.
struct LayerSkew {
  double max_over_mean = 1;
  double top1_share = 0, top2_share = 0;
  double top_tenth_share = 0;    // the hottest tenth of the experts, rounded down, at least one
  double gini = 0;               // 0 = all equal, towards 1 = all on one
  double effective_experts = 0;  // exp of the entropy: as many equally loaded experts would be as diverse
  // mean / max GPU load, experts in order, the same number on every GPU; nothing where they do not divide.
  std::array<std::optional<double>, kBalancednessGpus.size()> balancedness;
};
LayerSkew layer_skew(std::span<const double> loads);

// mean / max GPU load with experts in order, loads.size() / gpus on each.
double contiguous_balancedness(std::span<const double> loads, int gpus);

// All layers together: the five-figure spread of max / mean, the mean of everything else.
struct SkewSummary {
  double assignments = 0;
  double min = 1, median = 1, mean = 1, p90 = 1, max = 1;  // of max / mean over layers; quantiles interpolated linearly
  LayerSkew average;                                       // means over layers
  std::array<std::optional<double>, kBalancednessGpus.size()> worst_balancedness;  // the least over layers
};
SkewSummary skew_summary(const LoadWindow& window);

// Quantile by linear interpolation between the sorted values; `sorted` may not be empty.
double linear_quantile(std::span<const double> sorted, double share);

// The loads of a whole trace, of its load rows or its tokens, all sources together.
LoadWindow whole_window(const TraceFile& trace);

}  // namespace epsim
