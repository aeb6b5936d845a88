// Ranks against sorting, below and above the length from which keys are sorted.
#include "models/network/falling_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/core/rng.h"

namespace epsim {
namespace {

TEST_CASE("ranks are the places of values in falling order, earlier ones first where equal") {
  FallingOrder order;
  RandomStream draw(Seed{3}, "test");
  for (const std::size_t n : {0UL, 1UL, 2UL, 14UL, 511UL, 512UL, 513UL, 2000UL}) {
    std::vector<double> values(n);
    for (double& value : values) {
      value = draw.uniform() < 0.3 ? 7.0 : draw.uniform() < 0.1 ? 0.0 : 100 * draw.uniform();
    }
    std::vector<std::size_t> expected(n);
    std::iota(expected.begin(), expected.end(), std::size_t{0});
    std::stable_sort(expected.begin(), expected.end(),
                     [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
    const std::vector<std::int64_t>& ranks = order.ranks(values);
    REQUIRE(ranks.size() == n);
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(ranks[expected[i]] == static_cast<std::int64_t>(i));
    }
  }
}

}  // namespace
}  // namespace epsim
