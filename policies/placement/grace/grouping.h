// GRACE-MoE step 1: experts that serve the same tokens come into one group (Sec. 4.1, Algorithms 1 and 2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/choice.h"
#include "sim/core/rng.h"

namespace epsim {

// Symmetric affinities of n experts, zero on the diagonal.
class AffinityMatrix {
 public:
  // `values`: n x n, row by row.
  AffinityMatrix(int n, std::vector<double> values) : n_(n), values_(std::move(values)) {}
  int size() const { return n_; }
  double at(int i, int j) const {
    return values_[static_cast<std::size_t>(i) * static_cast<std::size_t>(n_) + static_cast<std::size_t>(j)];
  }
  std::span<const double> values() const { return values_; }
  // Rows and columns `members`, in that order.
  AffinityMatrix part(std::span<const int> members) const;

 private:
  int n_;
  std::vector<double> values_;
};

// Group -> its experts, ascending.
using Grouping = std::vector<std::vector<int>>;

// Fully non-uniform groups by spectral clustering; none is empty (`groups` <= experts).
//   Readings where the paper is silent: normalised symmetric Laplacian, the eigenvectors of its smallest eigenvalues,
//   rows scaled to length 1 (experts without affinity stay at the origin), k-means++ with 10 restarts from `seed`, the
//   lowest inertia wins, ties to the lower index, empty clusters restart at the point farthest from its centre.
Grouping spectral_groups(const AffinityMatrix& affinity, int groups, Seed seed);

// How an expert without a place is matched: by what it adds to a group's affinity (the text), or by the affinity the
// group then has altogether (the pseudo-code, by which the strongest group takes everything).
enum class GraceScore { kGain, kLiteralTotal };
template <>
inline constexpr auto kNames<GraceScore> = choice<GraceScore>({{"gain", GraceScore::kGain},
                                                               {"literal_total", GraceScore::kLiteralTotal}});

// Sizes that Algorithm 2 allows for `experts` in `groups`: E = floor(experts / groups), delta = max(1, E r rounded,
// halves to even), [max(1, E - delta), E + delta].
struct SizeBounds {
  int min = 1, max = 1;
};
SizeBounds controlled_sizes(int experts, int groups, double ratio);

// Algorithm 2: groups above the maximum keep the experts with most affinity inside (ties to the lower id); the others,
// by ascending id, go where they score best (ties to the smaller group, then the lower index); groups below the minimum
// take the expert whose move costs least.
Grouping control_sizes(const AffinityMatrix& affinity, Grouping groups, SizeBounds sizes, GraceScore score);

// Eq. 1: the share of all affinity that stays inside groups (1 where there is none), and the root mean square distance
// of group sizes from the ideal n / D.
double affinity_utilisation(const AffinityMatrix& affinity, const Grouping& groups);
double size_deviation(const Grouping& groups);

// The ratio whose normalised utilisation exceeds its normalised size deviation most; ties to the smaller ratio, the
// smallest where the deviations do not differ. Points are in ascending order of ratio.
struct RatioPoint {
  double ratio = 0, utilisation = 0, deviation = 0;
};
double choose_ratio(std::span<const RatioPoint> points);

}  // namespace epsim
