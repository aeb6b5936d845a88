// The baselines: contiguous, random, static_hot.
#include <doctest/doctest.h>

#include <algorithm>

#include "policies/plan_tools.h"
#include "tests/policies/support.h"

using epsim::ClusterShape;
using epsim::InputError;
using epsim::test::policy;
using epsim::test::window;
using Ints = std::vector<int>;

TEST_CASE("contiguous: experts in order, whatever the loads") {
  CHECK(policy("contiguous")->plan(window({{9, 0, 0, 0}}), {2, 2}).layers[0].slots == Ints{0, 1, 2, 3});
}

TEST_CASE("static_hot: the hottest expert goes to the coldest GPU that does not hold it") {
  // Loads at home: G0 10 + 2, G1 1 + 3, G2 6 + 5. Coldest first: G1 (4), G2 (11), G0 (12).
  // Expert 0 (10) -> G1; expert 4 (6) lives on G2 -> G0; expert 5 (5) lives on G2, the last with room -> passed over;
  // expert 3 (3) -> G2.
  const auto plan = policy("static_hot")->plan(window({{10, 2, 1, 3, 6, 5}}), {3, 3});
  CHECK(plan.layers[0].slots == Ints{0, 1, 4, 2, 3, 0, 4, 5, 3});
  CHECK(plan.copies_on_fullest_gpu() == 1);
  // A second round goes on with the next hottest: expert 1 (2) -> G1, expert 2 (1, home G1) -> G2; then none is left,
  // and G0 gets the hottest again so that memory stays equal.
  const auto twice = policy("static_hot", "{copies_per_gpu: 2}")->plan(window({{10, 2, 1, 3, 6, 5}}), {3, 3});
  CHECK(twice.layers[0].slots == Ints{0, 1, 4, 0, 2, 3, 0, 1, 4, 5, 3, 2});
}

TEST_CASE("random: a seed names the plan, copies go to distinct experts") {
  const auto load = window({std::vector<double>(32, 1.0), std::vector<double>(32, 1.0)});
  const auto plan = [&](const char* options) { return policy("random", options)->plan(load, {8, 4}); };
  const auto first = plan("{num_redundant_experts: 16, seed: 1}");
  CHECK(first.layers[0].slots == plan("{num_redundant_experts: 16, seed: 1}").layers[0].slots);
  CHECK(first.layers[0].slots != plan("{num_redundant_experts: 16, seed: 2}").layers[0].slots);
  CHECK(first.layers[0].slots != first.layers[1].slots);
  const Ints copies = epsim::copies_by_expert(first.layers[0], 32);
  CHECK(std::count(copies.begin(), copies.end(), 2) == 16);
  CHECK(std::count(copies.begin(), copies.end(), 1) == 16);
  // More copies than experts: everyone gets one before anyone gets two.
  const auto many = epsim::copies_by_expert(plan("{num_redundant_experts: 40}").layers[0], 32);
  CHECK(*std::min_element(many.begin(), many.end()) == 2);
  CHECK(*std::max_element(many.begin(), many.end()) == 3);
}

TEST_CASE("baselines: experts that do not divide are refused") {
  const auto load = window({{1, 2, 3}});
  CHECK_THROWS_AS(policy("static_hot")->plan(load, {2, 2}), InputError);
  CHECK_THROWS_AS(policy("random")->plan(load, {2, 2}), InputError);
  CHECK_THROWS_AS(policy("random", "{num_redundant_experts: 2}")->plan(load, {2, 2}), InputError);
  CHECK_NOTHROW(policy("random", "{num_redundant_experts: 1}")->plan(load, {2, 2}));
}

TEST_CASE("eplb_topology: a copy goes to a node that lacks the expert, then to the one with most slots left") {
  // Two nodes of two GPUs, groups {0, 1} and {2, 3}, one on each; eight slots. Expert 0 (10) is copied to node 1, then,
  // as both have it, to node 0 (2 against 3 slots taken) and to node 0 (3 and 3); then expert 2 (3 against 10 / 4), whose
  // other node is full. Packed by load a copy: 2.5, 2, 2.5, 2.5 on node 0 and 1.5, 1, 2.5, 1.5 on node 1.
  const auto policy = epsim::test::policy("eplb_topology", "{num_redundant_experts: 4, num_groups: 2}");
  const auto plan = policy->plan(epsim::test::window({{10, 2, 3, 1}}), {4, 2});
  CHECK(plan.layers[0].slots == std::vector<int>{0, 0, 0, 1, 0, 3, 2, 2});
}
