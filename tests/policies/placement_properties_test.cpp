// What every placement policy promises, on the inputs on which such programs go wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "policies/plan_tools.h"
#include "sim/domain/placement.h"
#include "tests/policies/support.h"

namespace {

using epsim::ClusterShape;
using epsim::LoadWindow;
using epsim::PlacementPlan;
using epsim::test::LoadKind;

struct Shape {
  int layers, experts;
  ClusterShape cluster;
};
// One GPU; one expert; as many GPUs as experts; several nodes; uneven numbers.
constexpr Shape kShapes[] = {{1, 4, {1, 1}}, {3, 1, {1, 1}},   {4, 8, {4, 2}},
                             {2, 8, {8, 4}}, {3, 64, {16, 8}}, {5, 60, {12, 4}}};

void check_plan(const PlacementPlan& plan, const LoadWindow& load, const ClusterShape& shape) {
  REQUIRE(plan.layers.size() == static_cast<std::size_t>(load.layers()));
  // build() refuses experts without a copy and ids out of range.
  const epsim::Placement placement =
      epsim::Placement::build(plan, shape, epsim::Bytes(1), epsim::Bytes(static_cast<double>(1 << 20)));
  const bool equal_memory =
      !plan.policy.starts_with("grace") || plan.policy == "grace_vanilla";  // whose groups follow affinity
  for (int g = 1; equal_memory && g < shape.gpus; ++g) {
    CHECK(placement.resident(g) == placement.resident(0));
  }
  for (int l = 0; l < load.layers(); ++l) {
    CAPTURE(l);
    const std::vector<double> gpus = placement.gpu_loads(l, load.layer(l));
    const double sum = std::accumulate(gpus.begin(), gpus.end(), 0.0);
    CHECK(sum == doctest::Approx(load.total(l)));
    CHECK(*std::max_element(gpus.begin(), gpus.end()) >= sum / shape.gpus * (1 - 1e-12));
    CHECK_NOTHROW(epsim::slots_by_expert(plan.layers[static_cast<std::size_t>(l)], load.experts()));
  }
}

bool same(const PlacementPlan& a, const PlacementPlan& b) {
  return a.layers.size() == b.layers.size() &&
         std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), [](const auto& x, const auto& y) {
           return x.slots == y.slots && x.first_slot == y.first_slot && x.copy_rank == y.copy_rank;
         });
}

}  // namespace

TEST_CASE(
    "every placement policy: all experts placed, memory equal (but grace's), load conserved, same input same plan") {
  for (const epsim::PlacementPolicyEntry& entry : epsim::placement_policies()) {
    CAPTURE(entry.name);
    std::uint64_t index = 0;
    for (const Shape& shape : kShapes) {
      CAPTURE(shape.experts);
      CAPTURE(shape.cluster.gpus);
      for (const LoadKind kind : epsim::test::kLoadKinds) {
        const LoadWindow load = epsim::test::random_window(kind, shape.layers, shape.experts, ++index);
        const auto made = epsim::test::policy(std::string(entry.name));
        const PlacementPlan plan = made->plan(load, shape.cluster);
        check_plan(plan, load, shape.cluster);
        CHECK(same(plan, made->plan(load, shape.cluster)));
      }
    }
  }
}

TEST_CASE("every placement policy: random shapes and loads") {
  epsim::RandomStream random(epsim::Seed{77}, "random shapes");
  const auto draw = [&](int from, int to) {
    return from + static_cast<int>(random.below(static_cast<std::uint64_t>(to - from + 1)));
  };
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    const int per_node = draw(1, 8);
    const Shape shape{draw(1, 4), 0, {per_node * draw(1, 4), per_node}};
    const int experts = shape.cluster.gpus * draw(1, 6);
    CAPTURE(experts);
    CAPTURE(shape.cluster.gpus);
    const auto kind = *(epsim::test::kLoadKinds.begin() + draw(0, 5));
    const LoadWindow load = epsim::test::random_window(kind, shape.layers, experts, 1000 + trial);
    for (const epsim::PlacementPolicyEntry& entry : epsim::placement_policies()) {
      CAPTURE(entry.name);
      check_plan(epsim::test::policy(std::string(entry.name))->plan(load, shape.cluster), load, shape.cluster);
    }
  }
}

TEST_CASE("base, eplb and craft do not care what experts are called") {
  // With all loads different, renaming experts renames slots and leaves the load of every GPU as it is.
  const ClusterShape cluster{8, 4};
  constexpr int kExperts = 40;
  epsim::RandomStream random(epsim::Seed{78}, "relabelling");
  for (int trial = 0; trial < 10; ++trial) {
    std::vector<int> renamed(kExperts);
    std::iota(renamed.begin(), renamed.end(), 0);
    LoadWindow load(2, kExperts), other(2, kExperts);
    for (std::size_t i = renamed.size(); i > 1; --i) {
      std::swap(renamed[i - 1], renamed[random.below(i)]);
    }
    for (int l = 0; l < 2; ++l) {
      for (std::size_t e = 0; e < kExperts; ++e) {
        load.layer(l)[e] = random.lognormal(5, 1);
        other.layer(l)[static_cast<std::size_t>(renamed[e])] = load.layer(l)[e];
      }
    }
    for (const auto& each : {std::pair{"base", "{}"},
                             {"eplb", "{}"},
                             {"eplb", "{avoid_duplicates: true}"},
                             {"eplb_vllm", "{}"},
                             {"eplb_sglang", "{}"},
                             {"craft", "{}"},
                             {"craft", "{interleave: least_filled_node, ties: lower_id}"}}) {
      const char *const name = each.first, *const options = each.second;
      CAPTURE(name);
      CAPTURE(options);
      const auto made = epsim::test::policy(name, options);
      const PlacementPlan plan = made->plan(load, cluster), mirrored = made->plan(other, cluster);
      for (std::size_t l = 0; l < 2; ++l) {
        std::vector<int> slots;
        for (const int e : plan.layers[l].slots) {
          slots.push_back(renamed[static_cast<std::size_t>(e)]);
        }
        CHECK(slots == mirrored.layers[l].slots);
      }
    }
  }
}

TEST_CASE("a copy per GPU never makes the fitted window less balanced than greedy packing alone") {
  // Not a theorem for greedy packing, so the shapes and seeds are fixed; a rule of thumb that must hold on skewed
  // loads.
  const ClusterShape cluster{16, 8};
  for (std::uint64_t index = 100; index < 120; ++index) {
    const LoadWindow load = epsim::test::random_window(LoadKind::kSkewed, 1, 64, index);
    const auto balance = [&](const char* name) {
      const auto plan = epsim::test::policy(name)->plan(load, cluster);
      return epsim::balancedness_by_layer(epsim::Placement::build(plan, cluster, epsim::Bytes(1), epsim::Bytes(1000)),
                                          load)
          .front();
    };
    CHECK(balance("eplb") >= balance("base"));
    CHECK(balance("base") >= balance("contiguous"));
  }
}
