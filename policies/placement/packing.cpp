#include "policies/placement/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "sim/core/check.h"

namespace epsim {

template <class Real>
std::vector<int> order_by_load(std::span<const Real> loads, TieOrder ties) {
  std::vector<int> order(loads.size());
  std::iota(order.begin(), order.end(), 0);
  const auto hotter = [&](int a, int b) {
    return loads[static_cast<std::size_t>(a)] > loads[static_cast<std::size_t>(b)];
  };
  if (ties == TieOrder::kStable) {
    std::stable_sort(order.begin(), order.end(), hotter);
  } else {
    std::sort(order.begin(), order.end(), hotter);
  }
  return order;
}

template <class Real, class Sum>
Packing pack_equally(std::span<const Real> loads, int packs, TieOrder ties) {
  const auto pack_count = static_cast<std::size_t>(packs);
  EPSIM_CHECK(packs > 0 && loads.size() % pack_count == 0, "items divide over packs");
  Packing out{.pack = std::vector<int>(loads.size()), .rank = std::vector<int>(loads.size(), 0)};
  if (loads.size() == pack_count) {
    std::iota(out.pack.begin(), out.pack.end(), 0);
    return out;
  }
  const int room = static_cast<int>(loads.size() / pack_count);
  using Pack = std::pair<Sum, int>;  // its load and number
  std::priority_queue<Pack, std::vector<Pack>, std::greater<>> lightest;
  for (int p = 0; p < packs; ++p) {
    lightest.emplace(Sum{0}, p);
  }
  std::vector<int> filled(pack_count, 0);
  for (const int item : order_by_load(loads, ties)) {
    const auto i = static_cast<std::size_t>(item);
    const auto [load, pack] = lightest.top();
    lightest.pop();
    out.pack[i] = pack;
    out.rank[i] = filled[static_cast<std::size_t>(pack)]++;
    if (out.rank[i] + 1 < room) {
      lightest.emplace(load + static_cast<Sum>(loads[i]), pack);
    }
  }
  return out;
}

template <class Real>
Replicas replicate_hottest(std::span<const Real> loads, int physical, int max_copies) {
  EPSIM_CHECK(physical >= static_cast<int>(loads.size()) && max_copies > 0, "every expert needs a slot");
  Replicas out;
  out.expert.resize(loads.size());
  std::iota(out.expert.begin(), out.expert.end(), 0);
  out.rank.assign(loads.size(), 0);
  out.copies.assign(loads.size(), 1);
  out.expert.reserve(static_cast<std::size_t>(physical));
  out.rank.reserve(static_cast<std::size_t>(physical));
  using Expert = std::pair<Real, int>;  // load per copy, minus its number: the lower one first
  const auto expert = [&](std::size_t e) {
    return Expert(loads[e] / static_cast<Real>(out.copies[e]), -static_cast<int>(e));
  };
  std::priority_queue<Expert> hottest;
  const auto add_below = [&](int limit) {
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (out.copies[e] < limit) {
        hottest.push(expert(e));
      }
    }
  };
  int limit = max_copies;
  add_below(limit);
  for (int p = static_cast<int>(loads.size()); p < physical; ++p) {
    while (hottest.empty()) {
      add_below(limit += max_copies);
    }
    const auto e = static_cast<std::size_t>(-hottest.top().second);
    hottest.pop();
    out.expert.push_back(static_cast<int>(e));
    out.rank.push_back(out.copies[e]++);
    if (out.copies[e] < limit) {
      hottest.push(expert(e));
    }
  }
  return out;
}

template std::vector<int> order_by_load<float>(std::span<const float>, TieOrder);
template std::vector<int> order_by_load<double>(std::span<const double>, TieOrder);
template Packing pack_equally<float, float>(std::span<const float>, int, TieOrder);
template Packing pack_equally<float, double>(std::span<const float>, int, TieOrder);
template Packing pack_equally<double, double>(std::span<const double>, int, TieOrder);
template Replicas replicate_hottest<float>(std::span<const float>, int, int);
template Replicas replicate_hottest<double>(std::span<const double>, int, int);

}  // namespace epsim
