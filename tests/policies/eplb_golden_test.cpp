// Results of the original EPLB program, bit for bit. See golden/eplb/README.md in the shared folder.
#include "tests/support/eplb_golden.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "policies/plan_tools.h"
#include "tests/policies/support.h"

namespace {

using epsim::test::policy;
using nlohmann::json;

epsim::PlacementPlan plan_for(const json& golden, const std::string& ties) {
  const int experts = golden.at("num_experts");
  const int gpus = golden.at("num_gpus");
  const int nodes = golden.at("num_nodes");
  const std::string options =
      fmt::format("{{num_redundant_experts: {}, mode: auto, num_groups: {}, ties: {}}}",
                  golden.at("num_replicas").get<int>() - experts, golden.at("num_groups").get<int>(), ties);
  const auto load = epsim::test::window(golden.at("weights").get<std::vector<std::vector<double>>>());
  return policy("eplb", options)->plan(load, epsim::ClusterShape{gpus, gpus / nodes});
}

void check_case(const json& golden, bool stable) {
  const epsim::PlacementPlan plan = plan_for(golden, stable ? "stable" : "libstdcxx");
  const auto phy2log = epsim::test::eplb_golden(golden, "phy2log", stable).get<std::vector<std::vector<int>>>();
  const auto logcnt = golden.at("logcnt").get<std::vector<std::vector<int>>>();
  const auto log2phy =
      epsim::test::eplb_golden(golden, "log2phy", stable).get<std::vector<std::vector<std::vector<int>>>>();
  REQUIRE(plan.layers.size() == phy2log.size());
  for (std::size_t l = 0; l < phy2log.size(); ++l) {
    CAPTURE(l);
    CHECK((plan.layers[l].slots == phy2log[l]));
    CHECK((epsim::copies_by_expert(plan.layers[l], plan.experts) == logcnt[l]));
    CHECK((epsim::slots_by_expert(plan.layers[l], plan.experts) == log2phy[l]));
  }
}

}  // namespace

TEST_CASE("eplb golden: every case of the original program, in both tie orders") {
  const std::vector<json> cases = epsim::test::eplb_golden_cases();
  CHECK(cases.size() >= 115);
  for (const json& golden : cases) {
    CAPTURE(golden.at("name").get<std::string>());
    check_case(golden, false);
    check_case(golden, true);
  }
}
