// EPLB against a second implementation of the same description, on random shapes and loads (tests/support).
#include <doctest/doctest.h>

#include "policies/placement/eplb.h"
#include "policies/plan_tools.h"
#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/eplb_reference.h"

using namespace epsim;

namespace {

void check_layer(const LayerPlan& made, const test::EplbReference& expected) {
  CHECK(made.slots == expected.phy2log);
  CHECK(made.copy_rank == expected.rank);
  CHECK(slots_by_expert(made, static_cast<int>(expected.logcnt.size())) == expected.log2phy);
  CHECK(copies_by_expert(made, static_cast<int>(expected.logcnt.size())) == expected.logcnt);
}

template <class Real, class Sum>
void check_plan(const test::EplbCase& c, bool stable, EplbVariant variant, test::EplbReferenceLayer<Real, Sum>) {
  const LoadWindow load = test::window(c.weights);
  EplbOptions options;
  options.redundant_experts = c.shape.physical - load.experts();
  options.mode = EplbMode::kAuto;
  options.groups = c.shape.groups;
  options.ties = stable ? TieOrder::kStable : TieOrder::kLibstdcxx;
  options.variant = variant;
  const PlacementPlan plan = eplb_plan("eplb", options, load, {c.shape.gpus, c.shape.gpus / c.shape.nodes});
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    const std::vector<float> loads(c.weights[l].begin(), c.weights[l].end());
    check_layer(plan.layers[l], test::EplbReferenceLayer<Real, Sum>(loads, c.shape, stable).plan());
  }
}

}  // namespace

TEST_CASE(
    "eplb equals a plain second implementation, in every variant and both tie orders, on random shapes and loads") {
  RandomStream random(Seed{20261121}, "eplb fuzz");
  const auto draw = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); };
  int hierarchical = 0, fallen_back = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const test::EplbCase c = test::random_eplb_case(draw);
    CAPTURE(trial);
    CAPTURE(c.shape.physical);
    CAPTURE(c.shape.groups);
    CAPTURE(c.shape.nodes);
    CAPTURE(c.shape.gpus);
    const bool divides = c.shape.groups % c.shape.nodes == 0;
    (divides ? hierarchical : fallen_back) += c.shape.nodes > 1 ? 1 : 0;
    for (const bool stable : {true, false}) {
      CAPTURE(stable);
      check_plan(c, stable, EplbVariant::kDeepseek, test::EplbReferenceLayer<float, float>{});
      check_plan(c, stable, EplbVariant::kSglang, test::EplbReferenceLayer<float, double>{});
      check_plan(c, stable, EplbVariant::kVllm, test::EplbReferenceLayer<double, double>{});
    }
  }
  CHECK(hierarchical > 50);
  CHECK(fallen_back > 50);
}

TEST_CASE("eplb: a load of minus zero is a load of zero") {
  const auto plan = [](double zero) {
    return test::policy("eplb", "{num_redundant_experts: 2}")->plan(test::window({{zero, 3, zero, 1}}), {2, 2});
  };
  CHECK(plan(-0.0).layers[0].slots == plan(0.0).layers[0].slots);
}
