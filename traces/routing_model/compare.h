// Two traces side by side: do they look alike to expert parallelism?
#pragma once

#include <string>
#include <vector>

#include "traces/routing_model/trace_profile.h"

namespace epsim {

// One statistic. `deviation`: of per-layer figures, the mean over layers of |b / a - 1|; of single figures, |b / a -
// 1|; of correlations, distances and overlaps per slot, |b - a|, as they may be near 0.
struct ComparisonRow {
  std::string name;
  double a = 0, b = 0;  // of per-layer figures, means over layers
  double deviation = 0;
  bool relative = true;
  bool by_layer = false;  // a mean over layers
};

struct ProfileComparison {
  std::string a, b;  // what is compared: model and source
  std::vector<ComparisonRow> rows;
  // 1 = alike in every statistic; the mean over the rows of max(0, 1 - deviation).
  double goodness = 1;
};

// Only statistics that both traces have. Throws InputError when layers or experts differ in number.
ProfileComparison compare(const TraceProfile& a, const TraceProfile& b);

// A table of the rows and the goodness.
std::string to_text(const ProfileComparison& comparison);
// Max / mean of every layer, side by side, with deviations.
std::string layers_to_text(const TraceProfile& a, const TraceProfile& b);

}  // namespace epsim
