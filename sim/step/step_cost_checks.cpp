#include "sim/step/step_cost_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr double kRoundOff = 1e-9;  // relative; sums of a few hundred rounded terms stay far below it

void check_shares(std::span<const Seconds> shares, Seconds total, const char* what) {
  double sum = 0;
  for (const Seconds share : shares) {
    EPSIM_CHECK(std::isfinite(share.count()) && share.count() >= 0,
                fmt::format("a step's time by {} holds {} s", what, share.count()));
    sum += share.count();
  }
  EPSIM_CHECK(std::abs(sum - total.count()) <= kRoundOff * total.count(),
              fmt::format("a step's time by {} adds up to {} s of {} s", what, sum, total.count()));
}

}  // namespace

void add_declared(StepCost& cost, LayerPart part, Seconds time) {
  cost.total += time;
  cost.by_part[static_cast<std::size_t>(part)] += time;
  cost.by_origin[static_cast<std::size_t>(Origin::kDeclared)] += time;
}

void check_cost(const StepCost& cost) {
  const double total = cost.total.count();
  EPSIM_CHECK(std::isfinite(total) && total >= 0, fmt::format("a step takes {} s", total));
  check_shares(cost.by_part, cost.total, "layer part");
  check_shares(cost.by_origin, cost.total, "origin");
  const double waiting = cost.straggler.count();
  EPSIM_CHECK(waiting >= 0 && waiting <= total * (1 + kRoundOff),
              fmt::format("a step of {} s waits {} s for stragglers", total, waiting));
}

}  // namespace epsim
