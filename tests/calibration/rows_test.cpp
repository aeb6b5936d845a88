// Rows per expert: what is split stays whole, and skew looks as its law says.
#include "calibration/measure/rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"

namespace epsim::test {
namespace {

using namespace measure;
using Rows = std::vector<std::int64_t>;

TEST_CASE("each law splits ten rows as worked out by hand") {
  CHECK(split_rows(RowDistribution::kEven, 4, 10) == Rows{3, 3, 2, 2});
  // Weights 1, 1/2, 1/3, 1/4 of 25/12: 4.8, 2.4, 1.6, 1.2; the two rows left over go to .8 and .6.
  CHECK(split_rows(RowDistribution::kZipf, 4, 10) == Rows{5, 2, 2, 1});
  CHECK(split_rows(RowDistribution::kOneHot, 4, 10) == Rows{10, 0, 0, 0});
  const std::vector<double> load = {0, 1, 3, 0, 99};
  CHECK(split_rows(RowDistribution::kTrace, 4, 8, load) == Rows{0, 2, 6, 0});
}

TEST_CASE("rows add up for every law, width and total") {
  const std::vector<double> load(64, 0.3);
  for (const auto law :
       {RowDistribution::kEven, RowDistribution::kZipf, RowDistribution::kOneHot, RowDistribution::kTrace}) {
    for (const int groups : {1, 3, 64}) {
      for (const std::int64_t total : {0, 1, 63, 8192, 524288}) {
        const Rows rows = split_rows(law, groups, total, load);
        CHECK(rows.size() == static_cast<std::size_t>(groups));
        CHECK(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == total);
        CHECK(*std::min_element(rows.begin(), rows.end()) >= 0);
      }
    }
  }
  CHECK_THROWS_AS(split_rows(RowDistribution::kTrace, 2, 8, std::vector<double>{0, 0}), InvariantBroken);
}

TEST_CASE("the busiest block of a contiguous placement") {
  const std::vector<double> load = {1, 2, 8, 0, 4, 5, 100};  // the last one fills no block of two
  CHECK(busiest_block(load, 2) == std::vector<double>{4, 5});
  CHECK(busiest_block(load, 3) == std::vector<double>{1, 2, 8});
}

TEST_CASE("the shape counts tiles group by group") {
  const Rows rows = {0, 1, 64, 65, 200};
  const RowShape s = shape_of(rows);
  CHECK(s.rows == 330);
  CHECK(s.rows_max == 200);
  CHECK(s.groups_hit == 4);
  CHECK(s.tiles_64 == 0 + 1 + 1 + 2 + 4);
  CHECK(s.tiles_128 == 0 + 1 + 1 + 1 + 2);
}

}  // namespace
}  // namespace epsim::test
