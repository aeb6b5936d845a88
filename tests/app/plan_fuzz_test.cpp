// Requests of every legal shape for EPLB, against a second implementation (tests/support/eplb_reference.h): what stands
// in the plan file, with the keys of the request stated in all the ways they may be.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/core/rng.h"
#include "sim/verbs/plan_report.h"
#include "sim/verbs/plan_request.h"
#include "tests/support/eplb_reference.h"

namespace {

using nlohmann::json;

json planned(const json& request) {
  const epsim::PlanRequest read = epsim::read_plan_request(epsim::Config::from_text(request.dump(), "request.json"));
  const epsim::PlacementPlan plan = epsim::make_plan(read);
  return json::parse(epsim::plan_json(plan, read, epsim::plan_figures(plan, read)));
}

}  // namespace

TEST_CASE("plan requests: whatever eplb.py takes, and the plan it makes") {
  epsim::RandomStream random(epsim::Seed{7}, "plan fuzz");
  const auto draw = [&](int n) { return static_cast<int>(random.below(static_cast<std::uint64_t>(n))); };
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const epsim::test::EplbCase c = epsim::test::random_eplb_case(draw);
    const bool stable = draw(2) == 0;
    const int experts = static_cast<int>(c.weights.front().size()), layers = static_cast<int>(c.weights.size());
    json request = {{"policy", "eplb"}, {"weights", c.weights}, {"num_gpus", c.shape.gpus}};
    json options = json::object();
    if (!stable || draw(2) == 0) {
      options["ties"] = stable ? "stable" : "libstdcxx";
    }
    if (c.shape.nodes > 1 || draw(2) == 0) {
      request["num_nodes"] = c.shape.nodes;
    }
    // The budget in one of its three forms.
    const int copies = c.shape.physical - experts, form = draw(3);
    if (form == 0 && copies >= 0) {
      request["num_replicas"] = c.shape.physical;
    } else if (form == 1 && copies * layers % c.shape.gpus == 0) {
      request["replication_factor"] = copies * layers / c.shape.gpus;
    } else {
      options["num_redundant_experts"] = copies;
    }
    // Groups with mode auto (said, or meant), or global.
    epsim::test::EplbReferenceShape shape = c.shape;
    const int mode = draw(3);
    if (mode == 0) {
      shape.groups = shape.nodes = 1;
      options["mode"] = "global";
    } else {
      request["num_groups"] = c.shape.groups;
      if (mode == 1) {
        options["mode"] = c.shape.groups % c.shape.nodes == 0 && draw(2) == 0 ? "hierarchical" : "auto";
      }
    }
    if (!options.empty()) {
      request["options"] = options;
    }
    CAPTURE(request.dump());
    const json plan = planned(request);
    for (std::size_t l = 0; l < c.weights.size(); ++l) {
      const std::vector<float> loads(c.weights[l].begin(), c.weights[l].end());
      const epsim::test::EplbReference expected = epsim::test::EplbReferenceLayer<>(loads, shape, stable).plan();
      CHECK((plan["phy2log"][l] == json(expected.phy2log)));
      CHECK((plan["log2phy"][l] == json(expected.log2phy)));
      CHECK((plan["logcnt"][l] == json(expected.logcnt)));
    }
  }
}
