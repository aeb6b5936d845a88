// Plans while GPUs go and come back, by hand.
#include "policies/rebalance/elastic.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace epsim;

namespace {

PlacementPlan plan_of(int gpus, int experts, std::vector<int> slots) {
  return {.policy = "hand", .experts = experts, .gpus = gpus, .layers = {uniform_layer(std::move(slots), gpus)}};
}

LoadWindow loads_of(std::vector<double> loads) {
  LoadWindow out(1, static_cast<int>(loads.size()));
  std::copy(loads.begin(), loads.end(), out.layer(0).begin());
  return out;
}

}  // namespace

TEST_CASE("what is left of a plan, and what comes back") {
  const PlacementPlan first = plan_of(3, 3, {0, 1, 1, 0, 2, 0});
  const LostGpus none = {false, false, false}, one = {true, false, false};
  const PlacementPlan left = with_gpus_left(first, first, none, one);
  CHECK(left.layers[0].slots == std::vector<int>{1, 0, 2, 0});
  CHECK(left.layers[0].first_slot == std::vector<int>{0, 0, 2, 4});
  CHECK(has_every_expert(left));
  CHECK_FALSE(has_every_expert(with_gpus_left(left, first, one, {true, false, true})));
  // GPU 0 comes back with what it had at first, the others keep what they have by now.
  PlacementPlan changed = left;
  changed.layers[0].slots[3] = 1;
  CHECK(with_gpus_left(changed, first, one, none).layers[0].slots == std::vector<int>{0, 1, 1, 0, 2, 1});
}

TEST_CASE("an expert without a copy takes the slot that costs the busiest GPU least") {
  // GPU 0 had expert 0, load 8. Left: {1, 2} and {2, 3} and {1, 3}, of loads 4, 6, 2, shared evenly: 5, 4 and 3.
  // In the place of expert 3 on GPU 2: 3 - 1 + 8 = 10 there, and 4 + 1 on GPU 1. Any other slot: 1 on GPU 0 of the left
  // 5 - 2 + 8 = 11, 2 there 10, 2 on GPU 1 4 - 3 + 8 = 9 with 5 + 3 on the other: 9 is least.
  const PlacementPlan first = plan_of(4, 4, {0, 0, 1, 2, 2, 3, 1, 3});
  const PlacementPlan left = with_gpus_left(first, first, LostGpus(4, false), {true, false, false, false});
  const auto repaired = give_slots_to_missing(left, loads_of({8, 4, 6, 2}));
  REQUIRE(repaired.has_value());
  CHECK(repaired->layers[0].slots == std::vector<int>{1, 2, 0, 3, 1, 3});
  // Two experts are gone, and one slot is to be had.
  const PlacementPlan tight = plan_of(3, 4, {0, 1, 2, 3, 2, 3});
  const PlacementPlan rest = with_gpus_left(tight, tight, LostGpus(3, false), {true, false, true});
  CHECK_FALSE(give_slots_to_missing(rest, loads_of({1, 1, 1, 1})).has_value());
}

TEST_CASE("planned anew on what is left: as many slots as there were, lost GPUs with none, every expert somewhere") {
  const PlacementPlan first = plan_of(4, 4, {0, 1, 2, 3, 0, 1, 2, 3});
  const auto next = plan_for_left(first, {false, true, false, false}, loads_of({9, 1, 1, 1}));
  REQUIRE(next.has_value());
  CHECK(next->layers[0].first_slot == std::vector<int>{0, 2, 2, 4, 6});
  CHECK(has_every_expert(*next));
  // Six slots for four experts: both copies more go to the hottest, one on each GPU.
  CHECK(std::count(next->layers[0].slots.begin(), next->layers[0].slots.end(), 0) == 3);
  for (const int g : {0, 2, 3}) {
    const int at = next->layers[0].first_slot[static_cast<std::size_t>(g)];
    CHECK((next->layers[0].slots[static_cast<std::size_t>(at)] == 0 ||
           next->layers[0].slots[static_cast<std::size_t>(at) + 1] == 0));
  }
  CHECK_FALSE(plan_for_left(first, {false, true, true, true}, loads_of({9, 1, 1, 1})).has_value());
}
