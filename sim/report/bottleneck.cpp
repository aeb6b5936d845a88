#include "sim/report/bottleneck.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace epsim {
namespace {

BottleneckFigures longest(const StepTotals& totals, std::span<const double> seconds) {
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  if (!(all > 0)) {
    return {};
  }
  const auto at = std::max_element(seconds.begin(), seconds.end());
  return {totals.links[static_cast<std::size_t>(at - seconds.begin())].name, *at, *at / all};
}

}  // namespace

BottleneckFigures layer_bottleneck(const StepTotals& totals, std::size_t layer, Direction direction) {
  return totals.bottleneck_s.empty() ? BottleneckFigures{} : longest(totals, totals.bottlenecks(layer, direction));
}

double bound_by(const StepTotals& totals, std::size_t link, Direction direction) {
  double sum = 0;
  for (std::size_t l = 0; l < totals.layers.size() && !totals.bottleneck_s.empty(); ++l) {
    sum += totals.bottlenecks(l, direction)[link];
  }
  return sum;
}

BottleneckFigures run_bottleneck(const StepTotals& totals, Direction direction) {
  std::vector<double> seconds;
  for (std::size_t link = 0; link < totals.links.size(); ++link) {
    seconds.push_back(bound_by(totals, link, direction));
  }
  return longest(totals, seconds);
}

}  // namespace epsim
