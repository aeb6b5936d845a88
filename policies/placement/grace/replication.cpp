#include "policies/placement/grace/replication.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace epsim {
namespace {

// The fewest experts, the most loaded first, whose loads together exceed the threshold.
std::vector<int> hot_experts(std::span<const double> loads, std::vector<int> group, double threshold) {
  const auto load = [&](int e) { return loads[static_cast<std::size_t>(e)]; };
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) { return load(a) > load(b); });
  double sum = 0;
  std::size_t count = 0;
  while (count < group.size() && sum <= threshold) {
    sum += load(group[count++]);
  }
  group.erase(group.begin() + static_cast<std::ptrdiff_t>(count), group.end());
  return group;
}

}  // namespace

int replica_count(std::span<const double> group_loads) {
  const double max = *std::max_element(group_loads.begin(), group_loads.end());
  const auto groups = static_cast<double>(group_loads.size());
  if (max <= 0) {
    return 0;
  }
  const double skew = max * groups / std::accumulate(group_loads.begin(), group_loads.end(), 0.0);
  return std::min(std::max(1, static_cast<int>(std::floor(skew))), static_cast<int>(group_loads.size()) - 1);
}

GraceCopies replicate_heaviest(std::span<const double> loads, const Grouping& groups, GraceReplication how,
                               Prediction prediction) {
  GraceCopies out;
  for (const std::vector<int>& group : groups) {
    double sum = 0;
    for (const int e : group) {
      sum += loads[static_cast<std::size_t>(e)];
    }
    out.predicted_load.push_back(sum);
  }
  std::vector<double>& load = out.predicted_load;
  const auto heaviest = std::max_element(load.begin(), load.end());
  out.heaviest = static_cast<int>(heaviest - load.begin());
  int copies = how == GraceReplication::kNone ? 0 : replica_count(load);
  if (how == GraceReplication::kFixed) {
    copies = std::min(copies, 1);
  }
  if (copies == 0) {
    return out;
  }
  const double max = *heaviest;
  out.experts = hot_experts(loads, groups[static_cast<std::size_t>(out.heaviest)], max * copies / (1 + copies));

  std::vector<int> others;
  for (int g = 0; g < static_cast<int>(load.size()); ++g) {
    if (g != out.heaviest) {
      others.push_back(g);
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [&](int a, int b) { return load[static_cast<std::size_t>(a)] < load[static_cast<std::size_t>(b)]; });
  out.gpus.assign(others.begin(), others.begin() + copies);

  double replicated = 0;
  for (const int e : out.experts) {
    replicated += loads[static_cast<std::size_t>(e)];
  }
  const double share = (prediction == Prediction::kConserving ? replicated : max) / (copies + 1);
  *heaviest += share - replicated;
  for (const int g : out.gpus) {
    load[static_cast<std::size_t>(g)] += share;
  }
  return out;
}

}  // namespace epsim
