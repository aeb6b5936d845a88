// How many rows each local expert's matrix product gets.
//   Models : even, Zipf (weight 1/i^s), one-hot, and the weights of a measured load; largest remainders give whole
//   rows. Source : Zipf as in the synthetic loads of traces/expert_loads; measured loads from the user's trace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace epsim::measure {

// Numbers stand in the column `distribution` of the points.
enum class RowDistribution { kEven = 0, kZipf = 1, kOneHot = 2, kTrace = 3 };
inline constexpr double kZipfExponent = 1.0;

// `total` rows over `groups` groups. `weights` (kTrace only) has at least `groups` entries, not all zero, of which the
// first `groups` are used. The sum is exactly `total`.
std::vector<std::int64_t> split_rows(RowDistribution distribution, int groups, std::int64_t total,
                                     std::span<const double> weights = {});

// The weights of the `groups` neighbouring experts, in aligned blocks of that size, that carry the most load: the
// busiest GPU of a contiguous placement. `load` has one entry per expert; a shorter last block is left out.
std::vector<double> busiest_block(std::span<const double> load, int groups);

// What tile padding depends on.
struct RowShape {
  std::int64_t rows = 0, rows_max = 0;
  int groups_hit = 0;                        // with at least one row
  std::int64_t tiles_64 = 0, tiles_128 = 0;  // sums of ceil(rows / 64) and of ceil(rows / 128)
};
RowShape shape_of(std::span<const std::int64_t> rows);

}  // namespace epsim::measure
