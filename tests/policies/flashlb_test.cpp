// vllm-ascend's FlashLB by hand. Source: vllm_ascend/eplb/core/policy/policy_flashlb.py.
#include <doctest/doctest.h>

#include "tests/policies/support.h"

using namespace epsim;

namespace {

const ClusterShape kTwo{2, 2};

// One layer of 4 experts; [batch][expert].
LoadWindow batches(const std::vector<std::vector<float>>& loads) {
  LoadWindow out(1, 4);
  out.reserve_batches(static_cast<int>(loads.size()));
  for (const std::vector<float>& batch : loads) {
    out.add_batch(batch);
  }
  return out;
}

}  // namespace

TEST_CASE("FlashLB puts experts together that are busy in different batches") {
  // Each takes 10 in one batch and 1 in the other: mean 5.5, variance 40.5. Expert 1 next to 0 would weigh 11 without
  // any variance, on the empty GPU 5.5 + 0.674 x 6.36 = 9.8. Expert 2 next to 0 weighs 11 + 0.674 x 12.7, next to 1
  // 11: then every batch is 11 on both GPUs.
  const auto policy = test::policy("flashlb", "{num_redundant_experts: 0}");
  const LoadWindow load = batches({{10, 1, 10, 1}, {1, 10, 1, 10}});
  CHECK(policy->plan(load, kTwo).layers.front().slots == std::vector<int>{0, 3, 1, 2});
}

TEST_CASE("FlashLB copies what weighs most per copy, at most once a GPU, and searches how many the hottest get") {
  // 12 4 4 4, two copies: expert 0 takes one (6 and 6, all GPUs have it), expert 1 the other. 6 + 4 + 2 on both GPUs:
  // no other split does better.
  const auto policy = test::policy("flashlb", "{num_redundant_experts: 2}");
  CHECK(policy->plan(test::window({{12, 4, 4, 4}}), kTwo).layers.front().slots == std::vector<int>{0, 2, 1, 0, 3, 1});
}

TEST_CASE("FlashLB leaves a layer whose mean is 0.9 of the fullest GPU, and improves others") {
  const auto policy = test::policy("flashlb", "{num_redundant_experts: 0}");
  const PlacementPlan in_order = test::policy("contiguous", "{}")->plan(test::window({{1, 1, 1, 1}}), kTwo);
  const auto again = [&](std::vector<double> loads) {
    return policy->replan(test::window({std::move(loads)}), kTwo, in_order).layers.front().slots;
  };
  CHECK(again({6, 5, 5, 4}) == std::vector<int>{0, 1, 2, 3});  // 11 and 9: 10 / 11 = 0.91
  CHECK(again({7, 5, 5, 3}) == std::vector<int>{0, 3, 1, 2});  // 12 and 8: 0.83; then 10 and 10
}
