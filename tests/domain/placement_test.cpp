#include "sim/domain/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/rng.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

constexpr ClusterShape kTwoGpus{.gpus = 2, .gpus_per_node = 2};

// Two layers of three experts on two GPUs with two slots each: expert 0 has two copies in layer 0, expert 2 in layer 1.
PlacementPlan small_plan() {
  return {.policy = "test",
          .experts = 3,
          .gpus = 2,
          .layers = {uniform_layer({0, 1, 2, 0}, 2), uniform_layer({2, 0, 1, 2}, 2)}};
}

Placement build(const PlacementPlan& plan) { return Placement::build(plan, kTwoGpus, 84_MiB, 1_GiB); }

TEST_CASE("slots are numbered GPU by GPU") {
  const LayerPlan layer = uniform_layer({5, 6, 7, 8, 9, 10}, 3);
  CHECK(layer.first_slot == std::vector<int>{0, 2, 4, 6});
  CHECK(layer.gpus() == 3);
  CHECK_THROWS_AS(uniform_layer({1, 2, 3}, 2), InvariantBroken);
  CHECK_THROWS_AS(uniform_layer({}, 0), InvariantBroken);
}

TEST_CASE("a plan becomes a placement that counts copies and shares the load evenly") {
  const Placement p = build(small_plan());
  CHECK(p.experts() == 3);
  CHECK(p.gpus() == 2);
  CHECK(p.layers() == 2);
  CHECK(p.layer(0).expert == std::vector<std::int32_t>{0, 1, 2, 0});
  CHECK(p.layer(0).copies == std::vector<std::int32_t>{2, 1, 1});
  CHECK(p.layer(0).share == std::vector<float>{0.5F, 1, 1, 0.5F});
  CHECK(p.layer(1).copies == std::vector<std::int32_t>{1, 1, 2});
  CHECK(p.resident(0) == 4);
  CHECK(p.resident(1) == 4);
  CHECK(p.max_resident() == 4);
}

TEST_CASE("GPUs may hold different numbers of experts, or none") {
  PlacementPlan plan{.policy = "test", .experts = 2, .gpus = 3, .layers = {}};
  plan.layers.push_back({.slots = {0, 1, 1}, .first_slot = {0, 3, 3, 3}, .copy_rank = {}});
  const Placement p = Placement::build(plan, {.gpus = 3, .gpus_per_node = 3}, 84_MiB, 1_GiB);
  CHECK(p.resident(0) == 3);
  CHECK(p.resident(2) == 0);
  const double loads[] = {6, 4};
  CHECK(p.gpu_loads(0, loads) == std::vector<double>{10, 0, 0});  // both copies of expert 1 are on GPU 0
}

TEST_CASE("copies are counted on the fullest GPU, over all layers") {
  // 3 experts x 2 layers on 2 GPUs are 3 a GPU without copies; 4 slots a GPU hold one extra copy.
  CHECK(small_plan().copies_on_fullest_gpu() == 1);
  CHECK(small_plan().copies() == 2);
  PlacementPlan plan{.policy = "test", .experts = 4, .gpus = 2, .layers = {}};
  plan.layers.push_back({.slots = {0, 1, 2, 3, 0, 1, 2}, .first_slot = {0, 2, 7}, .copy_rank = {}});
  plan.layers.push_back(uniform_layer({0, 1, 2, 3}, 2));
  CHECK(plan.copies_on_fullest_gpu() == 3);  // GPU 1: 5 + 2 slots, 4 x 2 / 2 = 4 of them originals
}

TEST_CASE("broken plans are refused, naming the layer") {
  struct Row {
    const char* says;
    std::function<void(PlacementPlan&)> spoil;
  };
  const Row rows[] = {
      {"layer 1: expert 1 has no copy", [](PlacementPlan& p) { p.layers[1].slots[2] = 0; }},
      {"layer 0: expert 3 is not in 0..2", [](PlacementPlan& p) { p.layers[0].slots[0] = 3; }},
      {"layer 1: expert -1 is not in 0..2", [](PlacementPlan& p) { p.layers[1].slots[3] = -1; }},
      {"layer 1: its slots do not divide over 2 GPUs",
       [](PlacementPlan& p) {
         p.layers[1].first_slot = {0, 4};
       }},
      {"layer 1: its slots do not divide", [](PlacementPlan& p) { p.layers[1].first_slot = {}; }},
      {"layer 0: its slots do not divide",
       [](PlacementPlan& p) {
         p.layers[0].first_slot = {0, 2, 3};
       }},
      {"layer 0: its slots do not divide",
       [](PlacementPlan& p) {
         p.layers[0].first_slot = {1, 2, 4};
       }},
      {"layer 0: its slots do not divide",
       [](PlacementPlan& p) {
         p.layers[0].first_slot = {0, 5, 4};
       }},
      {"is for 4 GPUs, the cluster has 2", [](PlacementPlan& p) { p.gpus = 4; }},
      {"no layer", [](PlacementPlan& p) { p.layers.clear(); }},
  };
  for (const Row& row : rows) {
    PlacementPlan plan = small_plan();
    row.spoil(plan);
    const InputError e = test::error_of<InputError>([&] { build(plan); });
    test::check_contains(e.what(), {row.says, "'test'"});
  }
}

TEST_CASE("a plan that does not fit names the GPU, what it needs and what it has") {
  PlacementPlan plan = small_plan();
  plan.layers[0] = {.slots = {0, 1, 2, 0, 1}, .first_slot = {0, 2, 5}, .copy_rank = {}};
  // GPU 0 holds 4 experts of 84 MiB, GPU 1 five: 420 MiB
  CHECK_NOTHROW(Placement::build(plan, kTwoGpus, 84_MiB, 420_MiB));
  const DoesNotFit e = test::error_of<DoesNotFit>([&] { Placement::build(plan, kTwoGpus, 84_MiB, 420_MiB - 1_B); });
  CHECK(e.gpu == 1);
  CHECK(e.need == 420_MiB);
  CHECK(e.have == 420_MiB - 1_B);
  test::check_contains(e.what(), {"GPU 1", "5 experts", "'test'"});
}

TEST_CASE("where not even an equal share of the experts fits, the policy is not blamed") {
  const PlacementPlan plan{.policy = "test", .experts = 4, .gpus = 2, .layers = {uniform_layer({0, 1, 2, 3}, 2)}};
  const DoesNotFit e = test::error_of<DoesNotFit>([&] { Placement::build(plan, kTwoGpus, 84_MiB, 84_MiB); });
  test::check_contains(e.what(), {"GPU 0 cannot hold the 2 experts of its even share", " GiB. More GPUs make room."});
  const PlacementPlan split{.policy = "test", .experts = 4, .gpus = 1, .layers = {uniform_layer({0, 1, 2, 3}, 1)}};
  const DoesNotFit half = test::error_of<DoesNotFit>([&] { Placement::build(split, kTwoGpus, 84_MiB, 84_MiB, {}, 2); });
  test::check_contains(half.what(), {"GPU 0 cannot hold 1/2 of the 4 experts of its EP rank"});
}

TEST_CASE("EPLB's copies on DeepSeek-R1 and Kimi-K2 cost what the arithmetic says") {
  // One extra copy a layer and GPU, 64 GPUs: 58 x 84 MiB = 4.758 GiB and 60 x 84 MiB = 4.922 GiB.
  struct Row {
    int experts, layers;
    double gib;
  };
  for (const Row& row : {Row{256, 58, 4.758}, Row{384, 60, 4.922}}) {
    PlacementPlan plan{.policy = "one copy", .experts = row.experts, .gpus = 64, .layers = {}};
    std::vector<int> slots(static_cast<std::size_t>(row.experts + 64));
    for (std::size_t s = 0; s < slots.size(); ++s) {
      slots[s] = static_cast<int>(s) % row.experts;
    }
    plan.layers.assign(static_cast<std::size_t>(row.layers), uniform_layer(slots, 64));
    CHECK(plan.copies_on_fullest_gpu() == row.layers);
    CHECK(to_gib(84_MiB * plan.copies_on_fullest_gpu()) == doctest::Approx(row.gib).epsilon(1e-4));
    const Placement p = Placement::build(plan, {.gpus = 64, .gpus_per_node = 8}, 84_MiB, 80_GiB);
    CHECK(p.max_resident() == row.layers * (row.experts / 64 + 1));
  }
}

TEST_CASE("the load of a GPU is what its copies serve") {
  const Placement p = build(small_plan());
  const double loads[] = {8, 3, 5};
  CHECK(p.gpu_loads(0, loads) == std::vector<double>{4 + 3, 5 + 4});
  CHECK(p.gpu_loads(1, loads) == std::vector<double>{2.5 + 8, 3 + 2.5});
  LoadWindow window(2, 3);
  for (int l = 0; l < 2; ++l) {
    std::copy(std::begin(loads), std::end(loads), window.layer(l).begin());
  }
  const std::vector<double> balance = balancedness_by_layer(p, window);
  CHECK(balance[0] == doctest::Approx(8.0 / 9));
  CHECK(balance[1] == doctest::Approx(8.0 / 10.5));
  CHECK(balancedness_by_layer(p, LoadWindow(2, 3)) == std::vector<double>{1, 1});  // no load is balanced
  CHECK_THROWS_AS(balancedness_by_layer(p, LoadWindow(3, 3)), InvariantBroken);
}

TEST_CASE("any placement serves every assignment once") {
  RandomStream random(Seed{8}, "placement-test");
  for (int round = 0; round < 200; ++round) {
    const int gpus = 1 + static_cast<int>(random.below(8)), experts = 1 + static_cast<int>(random.below(40));
    PlacementPlan plan{.policy = "random", .experts = experts, .gpus = gpus, .layers = {}};
    std::vector<std::vector<int>> held(static_cast<std::size_t>(gpus));
    for (int i = 0; i < 2 * experts; ++i) {  // each once, then copies by chance
      const int e = i < experts ? i : static_cast<int>(random.below(static_cast<std::uint64_t>(experts)));
      held[random.below(held.size())].push_back(e);
    }
    LayerPlan layer{.slots = {}, .first_slot = {0}, .copy_rank = {}};
    for (const std::vector<int>& gpu : held) {
      layer.slots.insert(layer.slots.end(), gpu.begin(), gpu.end());
      layer.first_slot.push_back(static_cast<int>(layer.slots.size()));
    }
    plan.layers.push_back(layer);
    const Placement p = Placement::build(plan, {.gpus = gpus, .gpus_per_node = gpus}, 1_MiB, 1_GiB);
    std::vector<double> loads(static_cast<std::size_t>(experts));
    for (double& load : loads) {
      load = static_cast<double>(random.below(1000));
    }
    const std::vector<double> served = p.gpu_loads(0, loads);
    const double asked = std::accumulate(loads.begin(), loads.end(), 0.0);
    // The shares are floats: each is off by 2^-25 of itself at most, and so is their sum.
    REQUIRE(std::accumulate(served.begin(), served.end(), 0.0) == doctest::Approx(asked).epsilon(1e-7));
    const double balance = balancedness(served);
    REQUIRE(balance > 0);
    REQUIRE(balance <= 1 + 1e-12);
    REQUIRE(balance >= 1.0 / gpus - 1e-12);
  }
}

}  // namespace
}  // namespace epsim
