#include "calibration/measure/rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"

namespace epsim::measure {
namespace {

std::vector<double> weights_of(RowDistribution distribution, int groups, std::span<const double> measured) {
  std::vector<double> out(static_cast<std::size_t>(groups), 1.0);
  switch (distribution) {
    case RowDistribution::kEven:
      break;
    case RowDistribution::kZipf:
      for (std::size_t g = 0; g < out.size(); ++g) {
        out[g] = std::pow(static_cast<double>(g + 1), -kZipfExponent);
      }
      break;
    case RowDistribution::kOneHot:
      std::fill(out.begin() + 1, out.end(), 0.0);
      break;
    case RowDistribution::kTrace:
      EPSIM_CHECK(measured.size() >= out.size(), "a measured load has a weight for every group");
      std::copy_n(measured.begin(), out.size(), out.begin());
      break;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> split_rows(RowDistribution distribution, int groups, std::int64_t total,
                                     std::span<const double> weights) {
  EPSIM_CHECK(groups > 0 && total >= 0, "rows are split over one group or more");
  const std::vector<double> share = weights_of(distribution, groups, weights);
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  EPSIM_CHECK(sum > 0, "some group has a weight");
  std::vector<std::int64_t> rows;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t given = 0;
  for (std::size_t g = 0; g < share.size(); ++g) {
    const double exact = static_cast<double>(total) * share[g] / sum;
    rows.push_back(static_cast<std::int64_t>(std::floor(exact)));
    given += rows.back();
    remainders.push_back({-(exact - std::floor(exact)), g});
  }
  std::sort(remainders.begin(), remainders.end());  // the largest first, equal ones in the order of the groups
  for (std::size_t i = 0; given < total; ++i, ++given) {
    ++rows[remainders[i % remainders.size()].second];
  }
  return rows;
}

std::vector<double> busiest_block(std::span<const double> load, int groups) {
  const auto width = static_cast<std::size_t>(groups);
  EPSIM_CHECK(groups > 0 && load.size() >= width, "a block is no wider than the load");
  std::size_t best = 0;
  double most = -1;
  for (std::size_t first = 0; first + width <= load.size(); first += width) {
    const double sum = std::accumulate(load.begin() + static_cast<std::ptrdiff_t>(first),
                                       load.begin() + static_cast<std::ptrdiff_t>(first + width), 0.0);
    if (sum > most) {
      most = sum;
      best = first;
    }
  }
  return {load.begin() + static_cast<std::ptrdiff_t>(best), load.begin() + static_cast<std::ptrdiff_t>(best + width)};
}

RowShape shape_of(std::span<const std::int64_t> rows) {
  RowShape out;
  for (const std::int64_t r : rows) {
    out.rows += r;
    out.rows_max = std::max(out.rows_max, r);
    out.groups_hit += r > 0 ? 1 : 0;
    out.tiles_64 += (r + 63) / 64;
    out.tiles_128 += (r + 127) / 128;
  }
  return out;
}

}  // namespace epsim::measure
