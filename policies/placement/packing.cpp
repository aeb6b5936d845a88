#include "policies/placement/packing.h"

#include <algorithm>
#include <numeric>

#include "policies/placement/load_key.h"
#include "sim/core/check.h"

namespace epsim {

template <class Real>
std::vector<int> order_by_load(std::span<const Real> loads, TieOrder ties) {
  using Keys = LoadKeys<Real>;
  using PackedKey = typename Keys::Key;
  std::vector<PackedKey> keys(loads.size());
  for (std::size_t i = 0; i < loads.size(); ++i) {
    keys[i] = descending_key(loads[i], i);
  }
  if (ties == TieOrder::kStable) {
    std::sort(keys.begin(), keys.end(), [](PackedKey a, PackedKey b) { return a > b; });
  } else {
    // Only the load takes part in the comparison: where equal loads end up is the sort's own doing.
    std::sort(keys.begin(), keys.end(),
              [](PackedKey a, PackedKey b) { return (a >> Keys::kIdBits) > (b >> Keys::kIdBits); });
  }
  std::vector<int> order(loads.size());
  std::transform(keys.begin(), keys.end(), order.begin(),
                 [](PackedKey key) { return static_cast<int>(id_of_descending<Real>(key)); });
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
  std::vector<typename LoadKeys<Sum>::Key> empty(pack_count);
  for (std::size_t p = 0; p < pack_count; ++p) {
    empty[p] = ascending_key(Sum{0}, p);
  }
  KeyHeap lightest(std::move(empty));
  std::vector<int> filled(pack_count, 0);
  for (const int item : order_by_load(loads, ties)) {
    const auto i = static_cast<std::size_t>(item);
    const auto key = lightest.top();
    const std::size_t p = id_of_ascending<Sum>(key);
    out.pack[i] = static_cast<int>(p);
    out.rank[i] = filled[p]++;
    if (filled[p] == room) {
      lightest.pop();
    } else {
      lightest.replace_top(ascending_key(LoadKeys<Sum>::load_of(key) + static_cast<Sum>(loads[i]), p));
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
  // The heap gives its smallest key, the loop wants the largest load: keys are complemented.
  using PackedKey = typename LoadKeys<Real>::Key;
  const auto key_of = [&](std::size_t e) { return ~descending_key(loads[e] / static_cast<Real>(out.copies[e]), e); };
  const auto experts_below = [&](int limit) {
    std::vector<PackedKey> keys;
    keys.reserve(loads.size());
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (out.copies[e] < limit) {
        keys.push_back(key_of(e));
      }
    }
    return KeyHeap<PackedKey>(std::move(keys));
  };
  int limit = max_copies;
  KeyHeap<PackedKey> hottest = experts_below(limit);
  for (int p = static_cast<int>(loads.size()); p < physical; ++p) {
    while (hottest.empty()) {
      hottest = experts_below(limit += max_copies);
    }
    const std::size_t e = id_of_descending<Real>(~hottest.top());
    out.expert.push_back(static_cast<int>(e));
    out.rank.push_back(out.copies[e]++);
    if (out.copies[e] < limit) {
      hottest.replace_top(key_of(e));
    } else {
      hottest.pop();
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
