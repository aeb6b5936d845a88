// Which link the exchanges of tokens waited for.
#pragma once

#include <cstddef>
#include <string>

#include "sim/domain/step.h"
#include "sim/report/format.h"

namespace epsim {

struct BottleneckFigures {
  std::string link;           // that set the time of the most exchange seconds; empty when nothing moved
  double bound_s = 0;         // those seconds
  double share = kUndefined;  // of all exchanges in which anything moved
};

BottleneckFigures layer_bottleneck(const StepTotals& totals, std::size_t layer, Direction direction);
// Over all layers.
BottleneckFigures run_bottleneck(const StepTotals& totals, Direction direction);
// Seconds of exchanges, in one direction and over all layers, that a link set the time of.
double bound_by(const StepTotals& totals, std::size_t link, Direction direction);

}  // namespace epsim
