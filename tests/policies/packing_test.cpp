#include "policies/placement/packing.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/core/rng.h"

using epsim::TieOrder;
using Ints = std::vector<int>;

TEST_CASE("packing: longest first, each into the lightest pack that has room") {
  // By load: 5 -> pack 0; 4 -> pack 1 (0 < 5); 3 -> pack 1 (4 < 5), now 7; 3 -> pack 0 (5 < 7), now 8;
  // 2 -> pack 1 (7 < 8), now full; 1 -> pack 0, the only one with room.
  const std::vector<float> loads = {5, 4, 3, 3, 2, 1};
  const epsim::Packing packing = epsim::pack_equally<float>(loads, 2, TieOrder::kStable);
  CHECK(packing.pack == Ints{0, 1, 1, 0, 1, 0});
  CHECK(packing.rank == Ints{0, 0, 1, 1, 2, 2});
}

TEST_CASE("packing: one item per pack keeps the order, whatever the loads") {
  const std::vector<float> loads = {1, 9, 5, 7};
  const epsim::Packing packing = epsim::pack_equally<float>(loads, 4, TieOrder::kStable);
  CHECK(packing.pack == Ints{0, 1, 2, 3});
  CHECK(packing.rank == Ints{0, 0, 0, 0});
}

TEST_CASE("packing: the type of the sums decides what a small load does to a large one") {
  // 2^24 + 1 is 2^24 in float32, so the packs look equal again and the lowest index wins twice; in double it does not.
  const std::vector<float> loads = {16777216, 16777216, 1, 1, 1, 1};
  CHECK(epsim::pack_equally<float>(loads, 2, TieOrder::kStable).pack == Ints{0, 1, 0, 0, 1, 1});
  CHECK(epsim::pack_equally<float, double>(loads, 2, TieOrder::kStable).pack == Ints{0, 1, 0, 1, 0, 1});
}

TEST_CASE("replication: the hottest copy first, ties to the lower id") {
  // 90, 50, 10 -> copy 0 (45, 50, 10) -> copy 1 (45, 25, 10) -> copy 0 (30, 25, 10).
  const std::vector<float> loads = {90, 50, 10};
  const epsim::Replicas replicas = epsim::replicate_hottest<float>(loads, 6);
  CHECK(replicas.expert == Ints{0, 1, 2, 0, 1, 0});
  CHECK(replicas.rank == Ints{0, 0, 0, 1, 1, 2});
  CHECK(replicas.copies == Ints{3, 2, 1});
  // 4, 4: expert 0 first, then expert 1 (4 > 2), then 0 again (2 = 2).
  const std::vector<double> equal = {4, 4};
  CHECK(epsim::replicate_hottest<double>(equal, 5).expert == Ints{0, 1, 0, 1, 0});
  // Nothing to do: all copies go to expert 0, and no load is divided by zero.
  const std::vector<double> zero = {0, 0, 0};
  CHECK(epsim::replicate_hottest<double>(zero, 6).copies == Ints{4, 1, 1});
}

TEST_CASE("order by load: stable ties are by id, libstdc++ ties are std::sort's") {
  epsim::RandomStream random(epsim::Seed{7}, "order test");
  for (const std::size_t n : {1U, 2U, 16U, 17U, 100U, 480U}) {
    CAPTURE(n);
    std::vector<float> loads(n);
    for (float& load : loads) {
      load = static_cast<float>(random.below(9));
    }
    struct Item {
      float load;
      int id;
    };
    std::vector<Item> items;
    for (std::size_t i = 0; i < n; ++i) {
      items.push_back({loads[i], static_cast<int>(i)});
    }
    const auto heavier = [](const Item& a, const Item& b) { return a.load > b.load; };
    const auto ids = [](const std::vector<Item>& sorted) {
      Ints out;
      for (const Item& item : sorted) {
        out.push_back(item.id);
      }
      return out;
    };
    std::vector<Item> sorted = items;
    std::stable_sort(sorted.begin(), sorted.end(), heavier);
    CHECK(epsim::order_by_load<float>(loads, TieOrder::kStable) == ids(sorted));
    sorted = items;
    std::sort(sorted.begin(), sorted.end(), heavier);
    CHECK(epsim::order_by_load<float>(loads, TieOrder::kLibstdcxx) == ids(sorted));
  }
}
