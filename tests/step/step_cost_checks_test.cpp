#include "sim/step/step_cost_checks.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <vector>

#include "sim/core/check.h"
#include "tests/support/fakes.h"

namespace epsim {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("costs add up part by part") {
  StepCost sum;
  StepCost step = test::declared_cost(3_ms);
  step.straggler = 1_ms;
  add_cost(sum, step);
  add_declared(step, LayerPart::kHost, 2_ms);
  add_cost(sum, step);
  check_cost(sum);
  CHECK(sum.total.count() == doctest::Approx(8e-3));
  CHECK(sum.by_part[static_cast<std::size_t>(LayerPart::kExperts)].count() == doctest::Approx(6e-3));
  CHECK(sum.by_part[static_cast<std::size_t>(LayerPart::kHost)].count() == doctest::Approx(2e-3));
  CHECK(sum.straggler.count() == doctest::Approx(2e-3));
}

TEST_CASE("a price that contradicts itself is refused") {
  const std::vector<std::function<void(StepCost&)>> spoil = {
      [](StepCost& c) { c.total += Seconds{1e-8}; },
      [](StepCost& c) { c.total = Seconds{kNan}; },
      [](StepCost& c) { c.total = Seconds{std::numeric_limits<double>::infinity()}; },
      [](StepCost& c) { c.by_part[0] = 1_ms; },
      [](StepCost& c) { c.by_part[1] = Seconds{kNan}; },
      [](StepCost& c) { c.by_origin[1] = 1_ms; },
      [](StepCost& c) { c.straggler = 4_ms; },
      [](StepCost& c) { c.straggler = Seconds{-1e-6}; },
      [](StepCost& c) { c.straggler = Seconds{kNan}; },
      [](StepCost& c) {  // sums right, with a negative part
        c.by_part[0] = Seconds{-1e-3};
        c.by_part[static_cast<std::size_t>(LayerPart::kExperts)] = 4_ms;
      }};
  CHECK_NOTHROW(check_cost(test::declared_cost(3_ms)));
  for (std::size_t i = 0; i < spoil.size(); ++i) {
    CAPTURE(i);
    StepCost cost = test::declared_cost(3_ms);
    spoil[i](cost);
    CHECK_THROWS_AS(check_cost(cost), InvariantBroken);
  }
}

}  // namespace epsim
