#include "policies/rebalance/keep_in_place.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "policies/rebalance/assignment.h"
#include "sim/domain/placement.h"
#include "tests/policies/support.h"

using epsim::Keep;
using epsim::PlacementPlan;
using Ints = std::vector<int>;

namespace {

PlacementPlan plan_of(Ints slots, int experts, int gpus) {
  return {.policy = "test", .experts = experts, .gpus = gpus, .layers = {epsim::uniform_layer(std::move(slots), gpus)}};
}

}  // namespace

TEST_CASE("assignment: equal to trying every permutation") {
  epsim::RandomStream random(epsim::Seed{5}, "assignment");
  for (int trial = 0; trial < 40; ++trial) {
    const std::size_t n = 1 + static_cast<std::size_t>(trial) % 6;
    std::vector<Ints> gain(n, Ints(n));
    for (Ints& row : gain) {
      std::generate(row.begin(), row.end(), [&] { return static_cast<int>(random.below(7)) - 2; });
    }
    const auto total = [&](const Ints& columns) {
      int sum = 0;
      for (std::size_t row = 0; row < n; ++row) {
        sum += gain[row][static_cast<std::size_t>(columns[row])];
      }
      return sum;
    };
    Ints columns(n);
    std::iota(columns.begin(), columns.end(), 0);
    int best = total(columns);
    do {
      best = std::max(best, total(columns));
    } while (std::next_permutation(columns.begin(), columns.end()));
    Ints found = epsim::best_assignment(gain);
    CHECK(total(found) == best);
    std::sort(found.begin(), found.end());
    CHECK(std::adjacent_find(found.begin(), found.end()) == found.end());
  }
}

TEST_CASE("keep slots: an expert that stays on its GPU stays in its slot") {
  const PlacementPlan before = plan_of({0, 1, 2, 3, 4, 5}, 6, 2);
  // GPU 0 keeps 2 and 0 and gets 4; GPU 1 keeps 3 and 5 and gets 1.
  const PlacementPlan next = plan_of({4, 2, 0, 5, 3, 1}, 6, 2);
  const PlacementPlan kept = epsim::keep_in_place(next, before, 2, Keep::kSlots);
  CHECK(kept.layers[0].slots == Ints{0, 4, 2, 3, 1, 5});
  CHECK(epsim::moved_copies(kept, before) == 2);
  CHECK(epsim::moved_copies(before, before) == 0);
}

TEST_CASE("keep GPUs: the same groups of experts on other GPUs need no move at all") {
  const PlacementPlan before = plan_of({0, 1, 2, 3, 4, 5, 6, 7}, 8, 4);
  const PlacementPlan next = plan_of({7, 6, 1, 0, 3, 2, 5, 4}, 8, 4);
  CHECK(epsim::moved_copies(next, before) == 8);
  const PlacementPlan kept = epsim::keep_in_place(next, before, 2, Keep::kGpus);
  CHECK(kept.layers[0].slots == before.layers[0].slots);
  // Inside nodes of two GPUs only 0-1 and 2-3 may swap: {1, 0} comes back to GPU 0 and {5, 4} to GPU 2, the other two
  // GPUs get what comes from the other node.
  const PlacementPlan in_node = epsim::keep_in_place(next, before, 2, Keep::kGpusInNode);
  CHECK(in_node.layers[0].slots == Ints{0, 1, 7, 6, 4, 5, 3, 2});
  CHECK(epsim::moved_copies(in_node, before) == 4);
}

TEST_CASE("keep GPUs: balance is untouched, moves never grow, uneven GPUs keep their room") {
  const epsim::ClusterShape shape{8, 4};
  for (std::uint64_t index = 300; index < 306; ++index) {
    const auto old_load = epsim::test::random_window(epsim::test::LoadKind::kSkewed, 3, 32, index);
    const auto new_load = epsim::test::random_window(epsim::test::LoadKind::kSkewed, 3, 32, index + 50);
    for (const char* name : {"eplb", "craft"}) {
      CAPTURE(name);
      const auto policy = epsim::test::policy(name);
      const PlacementPlan before = policy->plan(old_load, shape), next = policy->plan(new_load, shape);
      const auto balance = [&](const PlacementPlan& plan) {
        return epsim::balancedness_by_layer(epsim::Placement::build(plan, shape, epsim::Bytes(1), epsim::Bytes(1e6)),
                                            new_load);
      };
      int moves = epsim::moved_copies(next, before);
      for (const Keep how : {Keep::kSlots, Keep::kGpusInNode, Keep::kGpus}) {
        const PlacementPlan kept = epsim::keep_in_place(next, before, shape.gpus_per_node, how);
        CHECK(epsim::moved_copies(kept, before) <= moves);
        moves = epsim::moved_copies(kept, before);
        for (std::size_t l = 0; l < 3; ++l) {
          CHECK(balance(kept)[l] == doctest::Approx(balance(next)[l]));
          CHECK(kept.layers[l].first_slot == next.layers[l].first_slot);
        }
      }
      CHECK(moves < epsim::moved_copies(next, before));
    }
  }
}
