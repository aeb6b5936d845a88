// What greedy placement policies share: sorting by load, packing into equal packs, replicating the hottest expert.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "sim/core/choice.h"

namespace epsim {

// The order of items with equal loads when they are sorted by descending load.
//   kStable    : the lower id first. Does not depend on the standard library.
//   kLibstdcxx : what libstdc++'s std::sort leaves, as torch's unstable CPU sort did for the reference results.
enum class TieOrder { kStable, kLibstdcxx };
template <>
inline constexpr auto kNames<TieOrder> = choice<TieOrder>({{"stable", TieOrder::kStable},
                                                           {"libstdcxx", TieOrder::kLibstdcxx}});

// Ids 0 .. n-1 by descending load. Loads must not be negative.
template <class Real>
std::vector<int> order_by_load(std::span<const Real> loads, TieOrder ties);

// Which pack each item is in, and how many items came into that pack before it.
struct Packing {
  std::vector<int> pack;
  std::vector<int> rank;
};

// Longest processing time first with equal cardinality: items by descending load, each into the lightest pack that has
// room for it (the lowest index when several are equally light); every pack gets n / packs items, which must divide.
// One item per pack needs no choice: item i goes to pack i. `Sum` is the type in which pack loads are accumulated.
template <class Real, class Sum = Real>
Packing pack_equally(std::span<const Real> loads, int packs, TieOrder ties);

// Physical experts of one layer (or one node) before they are placed. The first `experts` are the originals in order,
// then come the extra copies in the order in which they were made.
struct Replicas {
  std::vector<int> expert;  // [physical] the logical expert it is a copy of
  std::vector<int> rank;    // [physical] 0 = the original, 1 = its first extra copy, ...
  std::vector<int> copies;  // [logical]
};

// Adds copies one by one, each to the expert with the largest load per copy (the lowest id when several are equal),
// until there are `physical` experts. `physical` must not be below the number of experts. No expert gets more than
// `max_copies` while another has fewer: copies of an expert beyond one per GPU serve nobody.
template <class Real>
Replicas replicate_hottest(std::span<const Real> loads, int physical, int max_copies = std::numeric_limits<int>::max());

}  // namespace epsim
