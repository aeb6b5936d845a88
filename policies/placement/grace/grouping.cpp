#include "policies/placement/grace/grouping.h"

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"

namespace epsim {
namespace {

// Affinity of one expert to the others of a group.
double affinity_to(const AffinityMatrix& affinity, int expert, const std::vector<int>& group) {
  double sum = 0;
  for (const int other : group) {
    sum += other == expert ? 0.0 : affinity.at(expert, other);
  }
  return sum;
}

// Algorithm 1: every pair counts in both orders.
double intra_score(const AffinityMatrix& affinity, const std::vector<int>& group) {
  double sum = 0;
  for (const int expert : group) {
    sum += affinity_to(affinity, expert, group);
  }
  return sum;
}

void insert_sorted(std::vector<int>& group, int expert) {
  group.insert(std::lower_bound(group.begin(), group.end(), expert), expert);
}

// Cuts groups down to `max`; returns the experts left over, ascending.
std::vector<int> cut_groups(const AffinityMatrix& affinity, Grouping& groups, int max) {
  std::vector<int> left_over;
  for (std::vector<int>& group : groups) {
    if (static_cast<int>(group.size()) <= max) {
      continue;
    }
    const std::vector<int> whole = group;
    std::stable_sort(group.begin(), group.end(),
                     [&](int a, int b) { return affinity_to(affinity, a, whole) > affinity_to(affinity, b, whole); });
    left_over.insert(left_over.end(), group.begin() + max, group.end());
    group.erase(group.begin() + max, group.end());
    std::sort(group.begin(), group.end());
  }
  std::sort(left_over.begin(), left_over.end());
  return left_over;
}

void place(const AffinityMatrix& affinity, Grouping& groups, int expert, int max, GraceScore score) {
  std::vector<int>* best = nullptr;
  double best_score = 0;
  for (std::vector<int>& group : groups) {
    if (static_cast<int>(group.size()) >= max) {
      continue;
    }
    const double gain = 2 * affinity_to(affinity, expert, group);
    const double scored = score == GraceScore::kGain ? gain : intra_score(affinity, group) + gain;
    if (best == nullptr || scored > best_score || (scored == best_score && group.size() < best->size())) {
      best = &group;
      best_score = scored;
    }
  }
  EPSIM_CHECK(best != nullptr, "the largest sizes hold all experts");
  insert_sorted(*best, expert);
}

// Moves the expert whose loss in its group exceeds the gain in `needy` least; ties to the lower id.
void feed(const AffinityMatrix& affinity, Grouping& groups, std::vector<int>& needy, int min) {
  std::vector<int>* donor = nullptr;
  int moved = -1;
  double lowest = 0;
  for (std::vector<int>& group : groups) {
    if (&group == &needy || static_cast<int>(group.size()) <= min) {
      continue;
    }
    for (const int expert : group) {
      const double cost = affinity_to(affinity, expert, group) - affinity_to(affinity, expert, needy);
      if (donor == nullptr || cost < lowest || (cost == lowest && expert < moved)) {
        donor = &group;
        moved = expert;
        lowest = cost;
      }
    }
  }
  EPSIM_CHECK(donor != nullptr, "the smallest sizes leave experts to give");
  donor->erase(std::find(donor->begin(), donor->end(), moved));
  insert_sorted(needy, moved);
}

// To the nearest whole number, halves to the even one, whatever the rounding mode.
int round_half_even(double x) {
  const double floor = std::floor(x), rest = x - floor;
  const bool up = rest > 0.5 || (rest == 0.5 && std::fmod(floor, 2.0) != 0.0);
  return static_cast<int>(floor) + (up ? 1 : 0);
}

}  // namespace

AffinityMatrix AffinityMatrix::part(std::span<const int> members) const {
  std::vector<double> values;
  values.reserve(members.size() * members.size());
  for (const int i : members) {
    for (const int j : members) {
      values.push_back(at(i, j));
    }
  }
  return {static_cast<int>(members.size()), std::move(values)};
}

SizeBounds controlled_sizes(int experts, int groups, double ratio) {
  const int ideal = experts / groups;
  const int delta = std::max(1, round_half_even(ideal * ratio));
  return {std::max(1, ideal - delta), ideal + delta};
}

Grouping control_sizes(const AffinityMatrix& affinity, Grouping groups, SizeBounds sizes, GraceScore score) {
  for (const int expert : cut_groups(affinity, groups, sizes.max)) {
    place(affinity, groups, expert, sizes.max, score);
  }
  for (std::vector<int>& group : groups) {
    while (static_cast<int>(group.size()) < sizes.min) {
      feed(affinity, groups, group, sizes.min);
    }
  }
  return groups;
}

double affinity_utilisation(const AffinityMatrix& affinity, const Grouping& groups) {
  double inside = 0, all = 0;
  for (const std::vector<int>& group : groups) {
    inside += intra_score(affinity, group);
  }
  for (const double a : affinity.values()) {
    all += a;
  }
  return all > 0 ? inside / all : 1.0;
}

double size_deviation(const Grouping& groups) {
  double experts = 0, squares = 0;
  for (const std::vector<int>& group : groups) {
    experts += static_cast<double>(group.size());
  }
  const auto count = static_cast<double>(groups.size());
  for (const std::vector<int>& group : groups) {
    const double off = static_cast<double>(group.size()) - experts / count;
    squares += off * off;
  }
  return std::sqrt(squares / count);
}

double choose_ratio(std::span<const RatioPoint> points) {
  EPSIM_CHECK(!points.empty(), "there are ratios to choose from");
  const auto [low_u, high_u] = std::minmax_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.utilisation < b.utilisation; });
  const auto [low_s, high_s] = std::minmax_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.deviation < b.deviation; });
  const double range_u = high_u->utilisation - low_u->utilisation, range_s = high_s->deviation - low_s->deviation;
  if (range_s <= 0) {
    return points.front().ratio;
  }
  double best = points.front().ratio, best_height = -2;  // heights are in [-1, 1]
  for (const RatioPoint& point : points) {
    const double u = range_u > 0 ? (point.utilisation - low_u->utilisation) / range_u : 0.0;
    const double height = u - (point.deviation - low_s->deviation) / range_s;
    if (height > best_height) {
      best_height = height;
      best = point.ratio;
    }
  }
  return best;
}

}  // namespace epsim
