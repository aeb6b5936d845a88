#include "policies/rebalance/keep_in_place.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "sim/core/rng.h"
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

TEST_CASE("keep GPUs: as few moves as the best of all permutations of the GPUs") {
  epsim::RandomStream random(epsim::Seed{5}, "assignment");
  for (int trial = 0; trial < 60; ++trial) {
    const int nodes = 1 + trial % 3, per_node = 1 + trial % 2, gpus = nodes * per_node;
    std::vector<Ints> held(static_cast<std::size_t>(gpus), Ints(4)), other = held;
    for (std::vector<Ints>* plan : {&held, &other}) {
      for (Ints& gpu : *plan) {
        std::generate(gpu.begin(), gpu.end(), [&] { return static_cast<int>(random.below(12)); });
      }
    }
    const auto plan = [&](const std::vector<Ints>& slots) {
      return PlacementPlan{.policy = "test", .experts = 12, .gpus = gpus, .layers = {epsim::layer_of_gpus(slots)}};
    };
    const PlacementPlan before = plan(held), next = plan(other);
    int best = epsim::moved_copies(next, before), best_in_node = best;
    Ints names(other.size());
    std::iota(names.begin(), names.end(), 0);
    do {
      bool in_node = true;
      std::vector<Ints> renamed;
      for (int g = 0; g < gpus; ++g) {
        const int name = names[static_cast<std::size_t>(g)];
        in_node = in_node && name / per_node == g / per_node;
        renamed.push_back(other[static_cast<std::size_t>(name)]);
      }
      const int moved = epsim::moved_copies(plan(renamed), before);
      best = std::min(best, moved);
      best_in_node = in_node ? std::min(best_in_node, moved) : best_in_node;
    } while (std::next_permutation(names.begin(), names.end()));
    CHECK(epsim::moved_copies(epsim::keep_in_place(next, before, per_node, Keep::kGpus), before) == best);
    const PlacementPlan in_node = epsim::keep_in_place(next, before, per_node, Keep::kGpusInNode);
    CHECK(epsim::moved_copies(in_node, before) == best_in_node);
    // Every GPU of the new plan is still there once.
    std::vector<Ints> found;
    for (int g = 0; g < gpus; ++g) {
      const auto first = in_node.layers[0].slots.begin() + 4 * g;
      found.emplace_back(first, first + 4);
    }
    for (std::vector<Ints>* lists : {&found, &other}) {
      std::for_each(lists->begin(), lists->end(), [](Ints& gpu) { std::sort(gpu.begin(), gpu.end()); });
      std::sort(lists->begin(), lists->end());
    }
    CHECK(found == other);
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
