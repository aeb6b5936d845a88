// vllm-ascend's SwiftBalancer by hand. Source: vllm_ascend/eplb/core/policy/policy_swift_balancer.py.
#include <doctest/doctest.h>

#include "policies/rebalance/keep_in_place.h"
#include "sim/domain/placement.h"
#include "tests/policies/support.h"

using namespace epsim;

namespace {

std::vector<int> slots_of(const PlacementPlan& plan) { return plan.layers.front().slots; }

}  // namespace

TEST_CASE("SwiftBalancer swaps one expert of the fullest GPU where the larger of both loads falls most") {
  // Experts in order: 14 and 2. 8 against 1 leaves 7 and 9, 6 against 1 leaves 9 and 7: the first is taken. Then the
  // two GPUs have exchanged an expert, and are done.
  const auto policy = test::policy("swift_balancer", "{num_redundant_experts: 0}");
  CHECK(slots_of(policy->plan(test::window({{8, 6, 1, 1}}), {2, 2})) == std::vector<int>{2, 1, 0, 3});
  // 8.1 against 8: less than 1 % from even is left alone, and so is a layer whose fullest GPU would fall by less than 5
  // %.
  CHECK(slots_of(policy->plan(test::window({{4.1, 4, 4, 4}}), {2, 2})) == std::vector<int>{0, 1, 2, 3});
  CHECK(slots_of(policy->plan(test::window({{4.4, 4, 4, 3.9}}), {2, 2})) == std::vector<int>{0, 1, 2, 3});
}

TEST_CASE(
    "SwiftBalancer leaves a swap that gains less than 1 % of the mean, and two GPUs one of which had a copy of the "
    "other") {
  // 130, 70 and 100. 70 against 50 leaves 110 and 90; then 60 against 59.5 would leave 109.5 and 100.5.
  const auto policy = test::policy("swift_balancer", "{num_redundant_experts: 0}");
  CHECK(slots_of(policy->plan(test::window({{70, 60, 50, 20, 59.5, 40.5}}), {3, 3})) ==
        std::vector<int>{2, 1, 0, 3, 4, 5});
  // It starts from 0 1 2 3 | 4 5 0 1. Expert 3 (20) gets a copy on GPU 1, and expert 0 (8) the slot that is left: 4 + 6 + 5 +
  // 10 = 25 against 3 + 2 + 10 + 4 = 19. 6 against 3 would leave 22 and 22, but GPU 1 has had its expert from GPU 0.
  const auto copies = test::policy("swift_balancer", "{num_redundant_experts: 2}");
  CHECK(slots_of(copies->plan(test::window({{8, 6, 5, 20, 3, 2}}), {2, 2})) ==
        std::vector<int>{0, 1, 2, 3, 4, 5, 0, 3});
}

TEST_CASE("SwiftBalancer gives copies out anew, one expert at most from a GPU to another, then fills what is left") {
  // It starts from 0 1 2 | 3 0 1, loads 16 and 8. Both copies on GPU 1 are free again. Expert 2 (12) gets one, expert 3
  // the other (of equal loads the last), which GPU 1 has already: the slot takes the hottest that it lacks, expert 1 of
  // 0 and 1.
  const auto policy = test::policy("swift_balancer", "{num_redundant_experts: 2}");
  CHECK(slots_of(policy->plan(test::window({{4, 4, 12, 4}}), {2, 2})) == std::vector<int>{0, 1, 2, 3, 1, 2});
}

TEST_CASE("SwiftBalancer moves few experts, and never makes the fullest GPU fuller") {
  const ClusterShape shape{16, 8};
  const auto swift = test::policy("swift_balancer", "{num_redundant_experts: 16}");
  const auto eplb = test::policy("eplb", "{num_redundant_experts: 16}");
  for (std::uint64_t i = 0; i < 8; ++i) {
    const LoadWindow first = test::random_window(test::LoadKind::kSkewed, 3, 64, i),
                     second = test::random_window(test::LoadKind::kSkewed, 3, 64, 100 + i);
    const PlacementPlan before = eplb->plan(first, shape);
    const PlacementPlan few = swift->replan(second, shape, before);
    const PlacementPlan all = keep_in_place(eplb->plan(second, shape), before, 8, Keep::kSlots);
    CHECK(moved_copies(few, before) < moved_copies(all, before));
    const auto peak = [&](const PlacementPlan& plan, int l) {
      const std::vector<double> gpus =
          Placement::build(plan, shape, Bytes(1), Bytes(1e6)).gpu_loads(l, second.layer(l));
      return *std::max_element(gpus.begin(), gpus.end());
    };
    double was = 0, is = 0;
    for (int l = 0; l < 3; ++l) {
      was += peak(before, l);
      is += peak(few, l);
    }
    CHECK(is <= was);
  }
}
