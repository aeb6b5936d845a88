#include "models/compute/expert_table.h"

#include <doctest/doctest.h>

#include <cmath>

namespace epsim {
namespace {

// Straight in rows and in experts, so that linear interpolation is exact; measured up to 4 experts, beyond
// extrapolated.
// A token more takes 2 ns, and 1 for each expert.
ExpertTable::Point straight(double each, double experts) {
  return {{Seconds(1e-6 * (3 + 2 * each + 5 * experts)), experts <= 4 ? Origin::kMeasured : Origin::kExtrapolated},
          Seconds(1e-9 * (2 + experts)),
          {}};
}

TEST_CASE("between the points of the grid a straight function is itself") {
  const ExpertTable table(straight);
  for (const double experts : {1.0, 1.9, 4.0, 37.25}) {
    for (const double each : {1.0, 1.06, 3.3, 129.0, 65536.5}) {
      const double expected = 1e-6 * (3 + 2 * each + 5 * experts);
      CHECK(table.at(each * experts, experts).time.count() / expected == doctest::Approx(1).epsilon(1e-9));
      CHECK(table.at(each * experts, experts, 1000).time.count() / (expected + 1e-6 * (2 + experts)) ==
            doctest::Approx(1).epsilon(1e-9));
    }
  }
}

TEST_CASE("rows and tokens together take no less than the least") {
  const ExpertTable table([](double each, double) {
    return ExpertTable::Point{{Seconds(1e-6 * each), Origin::kMeasured}, Seconds(1e-9), Seconds(5e-6)};
  });
  CHECK(table.at(2, 1, 1000).time.count() * 1e6 == doctest::Approx(5));    // 2 + 1 us
  CHECK(table.at(2, 1, 10000).time.count() * 1e6 == doctest::Approx(12));  // 2 + 10 us, not 5 + 10
}

TEST_CASE("a price is as certain as the weakest point that it is made from") {
  const ExpertTable table(straight);
  CHECK(table.at(8, 4).origin == Origin::kMeasured);         // on the grid, whatever lies beyond
  CHECK(table.at(4 * 1.06, 4).origin == Origin::kMeasured);  // between two numbers of rows of 4 experts
  CHECK(table.at(9, 4.5).origin == Origin::kExtrapolated);   // leans on 5 experts
  CHECK(table.at(2, 1.5).origin == Origin::kMeasured);
}

TEST_CASE("no rows take no time, and less than one expert is one") {
  const ExpertTable table(straight);
  CHECK(table.at(0, 0).time.count() == 0);
  CHECK(table.at(2, 0.3).time.count() == table.at(2, 1).time.count());
}

TEST_CASE("many GPUs at once give what each gives alone") {
  const ExpertTable table(straight);
  std::vector<double> rows, touched;
  for (int g = 0; g < 150; ++g) {
    rows.push_back(g % 10 == 0 ? 0 : 1.7 * g);
    touched.push_back(0.11 * g);
  }
  PriceRow out;
  table.at(rows, touched, 0, out);
  for (std::size_t g = 0; g < rows.size(); ++g) {
    const Price alone = table.at(rows[g], touched[g]);
    CHECK(out[g].time.count() == alone.time.count());
    CHECK(out[g].origin == alone.origin);
  }
}

}  // namespace
}  // namespace epsim
