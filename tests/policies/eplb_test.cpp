#include "policies/placement/eplb.h"

#include <doctest/doctest.h>

#include "policies/plan_tools.h"
#include "tests/policies/support.h"

using epsim::ClusterShape;
using epsim::EplbOptions;
using epsim::InputError;
using epsim::LayerPlan;
using epsim::test::policy;
using epsim::test::window;
using Ints = std::vector<int>;

namespace {

LayerPlan first_layer(const std::string& name, const std::string& options, const std::vector<double>& loads,
                      ClusterShape shape) {
  return policy(name, options)->plan(window({loads}), shape).layers.at(0);
}

}  // namespace

TEST_CASE("eplb, global: copies of the hottest, then greedy packing") {
  // 6 experts, 8 slots on 4 GPUs of 2. Copies: 90 -> expert 0 (45 each), 60 -> expert 3 (30 each).
  // Per copy [45 20 10 30 40 5 | 45 30], by load: 0a 0b 4 3a 3b 1 2 5.
  // 45 -> G0, 45 -> G1, 40 -> G2, 30 -> G3, 30 -> G3 (30 is lightest, now full), 20 -> G2 (40 < 45), 10 -> G0, 5 -> G1.
  const LayerPlan plan = first_layer("eplb", "{num_redundant_experts: 2}", {90, 20, 10, 60, 40, 5}, ClusterShape{4, 2});
  CHECK(plan.slots == Ints{0, 2, 0, 5, 4, 1, 3, 3});
  CHECK(plan.copy_rank == Ints{0, 0, 1, 0, 0, 0, 0, 1});
  CHECK(epsim::copies_by_expert(plan, 6) == Ints{2, 1, 1, 2, 1, 1});
  CHECK(epsim::slots_by_expert(plan, 6) == std::vector<Ints>{{0, 2}, {5}, {1}, {6, 7}, {4}, {3}});
}

TEST_CASE("eplb: a layer without load copies expert 0, one without choice keeps the order") {
  const LayerPlan zeros = first_layer("eplb", "{num_redundant_experts: 2}", {0, 0, 0, 0}, ClusterShape{2, 2});
  CHECK(zeros.slots == Ints{0, 1, 2, 3, 0, 0});  // six equal loads: the first pack with room takes the next
  // One slot per GPU: copies are made, but nothing is sorted. 9 -> expert 1, then 9/2 < 7 -> expert 3.
  const LayerPlan single = first_layer("eplb", "{num_redundant_experts: 2}", {1, 9, 5, 7}, ClusterShape{6, 6});
  CHECK(single.slots == Ints{0, 1, 2, 3, 1, 3});
}

TEST_CASE("eplb: by default one extra copy per GPU") {
  const LayerPlan plan = first_layer("eplb", "{}", {8, 1, 1, 1}, ClusterShape{2, 2});
  CHECK(plan.slots.size() == 6);
  // 8 -> 4 + 4 -> 8/3 each: both copies go to expert 0. Order: 0 0 0 1 2 3 with loads 8/3 8/3 8/3 1 1 1:
  // G0, G1, G0 (tie, lowest), then G1 gets 1, G1 gets the next (3.67 < 5.33, full), G0 the last.
  CHECK(plan.slots == Ints{0, 0, 3, 0, 1, 2});
}

TEST_CASE("eplb, hierarchical: copies and packing stay inside a node") {
  // Groups of one expert, loads 8 1 1 6. By load: 0 -> node 0 (8), 3 -> node 1 (6), 1 -> node 1 (7, full), 2 -> node 0.
  // Each node of one GPU has 3 slots: node 0 copies expert 0 (4 4 1), node 1 copies expert 3 (3 3 1).
  const std::string options = "{num_redundant_experts: 2, mode: hierarchical, num_groups: 4}";
  const LayerPlan plan = first_layer("eplb", options, {8, 1, 1, 6}, ClusterShape{2, 1});
  CHECK(plan.slots == Ints{0, 0, 2, 3, 3, 1});
  CHECK(plan.copy_rank == Ints{0, 1, 0, 0, 1, 0});
}

TEST_CASE("base: EPLB's packing without copies; groups on one node still change the order") {
  const std::vector<double> loads = {5, 1, 5, 2};
  // Global, by load: 0 2 3 1 -> G0, G1, G0 (5 = 5), G1.
  CHECK(first_layer("base", "{}", loads, ClusterShape{2, 2}).slots == Ints{0, 3, 2, 1});
  // Two groups with loads 6 and 7 on one node: the heavier one comes first, so experts are looked at as 2 3 0 1.
  for (const char* mode : {"hierarchical", "auto"}) {
    CAPTURE(mode);
    const std::string options = std::string("{num_groups: 2, mode: ") + mode + "}";
    CHECK(first_layer("base", options, loads, ClusterShape{2, 2}).slots == Ints{2, 3, 0, 1});
  }
  // As many groups as nodes: each group stays on the node of its number.
  CHECK(first_layer("base", "{num_groups: 2, mode: hierarchical}", loads, ClusterShape{2, 1}).slots ==
        Ints{0, 1, 2, 3});
}

TEST_CASE("eplb, auto: groups that do not divide over the nodes mean global") {
  const std::vector<double> loads = {5, 1, 5, 2, 7, 3};
  const ClusterShape two_nodes{2, 1};
  CHECK(first_layer("base", "{num_groups: 3, mode: auto}", loads, two_nodes).slots ==
        first_layer("base", "{mode: global}", loads, two_nodes).slots);
}

TEST_CASE("eplb variants: the arithmetic decides ties that float32 cannot see") {
  // 2^24 + 1 is 2^24 in float32: DeepSeek's sums put both ones on GPU 0, sums in double put them on GPU 0 and GPU 1.
  const std::vector<double> sums = {16777216, 16777216, 1, 1, 1, 1};
  const auto slots = [](const char* variant, const std::vector<double>& loads, int copies, ClusterShape shape) {
    const std::string options = "{num_redundant_experts: " + std::to_string(copies) + ", variant: " + variant + "}";
    return first_layer("eplb", options, loads, shape).slots;
  };
  CHECK(slots("deepseek", sums, 0, {2, 2}) == Ints{0, 2, 3, 1, 4, 5});
  CHECK(slots("sglang", sums, 0, {2, 2}) == Ints{0, 2, 4, 1, 3, 5});
  CHECK(slots("vllm", sums, 0, {2, 2}) == Ints{0, 2, 4, 1, 3, 5});
  // 10 / 3 rounds down to float32. After two more copies of expert 1 (5, 3.33) both experts have 3.3333333 per copy in
  // float32, where the lower id wins, while in double expert 1 still has more.
  const std::vector<double> thirds = {static_cast<double>(10.0F / 3.0F), 10};
  REQUIRE(thirds[0] < 10.0 / 3.0);
  const auto copies = [&](const char* variant) {
    const std::string options = std::string("{num_redundant_experts: 3, variant: ") + variant + "}";
    return epsim::copies_by_expert(first_layer("eplb", options, thirds, {1, 1}), 2);
  };
  CHECK(copies("deepseek") == Ints{2, 3});
  CHECK(copies("sglang") == Ints{2, 3});
  CHECK(copies("vllm") == Ints{1, 4});
}

TEST_CASE("eplb, avoid_duplicates: copies of an expert are on different GPUs") {
  // The original puts both copies of expert 0 on GPU 0 in this hierarchical plan of one GPU per node, where nothing
  // else is possible; on two GPUs it packs 8/3 8/3 8/3 1 1 1 as 0 0 3 | 0 1 2.
  const std::vector<double> loads = {8, 1, 1, 1};
  CHECK(first_layer("eplb", "{}", loads, {2, 2}).slots == Ints{0, 0, 3, 0, 1, 2});
  // Without duplicates expert 0 has at most two copies (4 each); the next hottest is expert 1 (1 -> 1/2 each).
  // By load: 0 0 on either GPU, then 2 -> G0, 3 -> G1, then the halves of 1 on either.
  CHECK(first_layer("eplb", "{avoid_duplicates: true}", loads, {2, 2}).slots == Ints{0, 2, 1, 0, 3, 1});
  // Four experts on two GPUs have at most one copy each besides themselves; of two nodes of one GPU, none.
  const auto copies = [](int redundant, int groups) {
    return EplbOptions{.redundant_experts = redundant,
                       .mode = epsim::EplbMode::kAuto,
                       .groups = groups,
                       .ties = {},
                       .avoid_duplicates = true,
                       .place = {}};
  };
  CHECK(epsim::check_eplb(copies(4, 1), 4, {2, 2}).physical == 8);
  CHECK_THROWS_WITH_AS(epsim::check_eplb(copies(6, 1), 4, {2, 2}), doctest::Contains("is at most 4."), InputError);
  CHECK_THROWS_WITH_AS(epsim::check_eplb(copies(2, 2), 4, {2, 1}), doctest::Contains("is at most 0."), InputError);
}

TEST_CASE("eplb: shapes that cannot be served are refused with what is allowed") {
  struct Row {
    const char* name;
    EplbOptions options;
    int experts;
    ClusterShape shape;
    const char* says;
  };
  using enum epsim::EplbMode;
  const auto with = [](int redundant, epsim::EplbMode mode, int groups) {
    return EplbOptions{
        .redundant_experts = redundant, .mode = mode, .groups = groups, .ties = {}, .place = {"s.yaml", 3, "policy"}};
  };
  const Row rows[] = {
      {"experts over groups", with(0, kAuto, 4), 6, {2, 2}, "6 experts do not divide into 4 groups"},
      {"GPUs over nodes", with(0, kGlobal, 1), 12, {6, 4}, "6 GPUs do not divide into nodes of 4"},
      {"slots over GPUs", with(3, kGlobal, 1), 6, {4, 4}, "num_redundant_experts = 2, or that plus a multiple of 4"},
      {"fewer slots than experts", with(-4, kGlobal, 1), 8, {4, 4}, "4 physical experts cannot hold 8 experts"},
      {"groups over nodes", with(0, kHierarchical, 3), 6, {2, 1}, "3 groups do not divide over 2 nodes"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    try {
      epsim::check_eplb(row.options, row.experts, row.shape);
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find(row.says) != std::string::npos);
      CHECK(error.place.key == "policy");
    }
  }
  CHECK_THROWS_AS(policy("eplb", "{num_redundant_experts: -1}"), InputError);
  CHECK_THROWS_AS(policy("eplb", "{mode: sideways}"), InputError);
  CHECK_THROWS_AS(policy("contiguous")->plan(window({{1, 2, 3}}), ClusterShape{2, 2}), InputError);
}
