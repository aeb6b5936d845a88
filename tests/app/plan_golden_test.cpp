// Results of the original EPLB program, bit for bit, through `epsim plan`. See golden/eplb/README.md in the shared
// folder.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/verbs/plan_report.h"
#include "sim/verbs/plan_request.h"
#include "tests/app/process.h"
#include "tests/support/eplb_golden.h"

namespace {

using epsim::test::TempDir;
using nlohmann::json;

std::string request_for(const json& golden, const std::string& mode, const std::string& ties) {
  json request = {{"policy", "eplb"}, {"options", {{"mode", mode}, {"ties", ties}}}};
  for (const char* key : {"weights", "num_replicas", "num_groups", "num_nodes", "num_gpus"}) {
    request[key] = golden.at(key);
  }
  return request.dump();
}

void check_plan(const json& golden, const json& plan, bool stable) {
  CHECK((plan.at("phy2log") == epsim::test::eplb_golden(golden, "phy2log", stable)));
  CHECK((plan.at("log2phy") == epsim::test::eplb_golden(golden, "log2phy", stable)));
  CHECK((plan.at("logcnt") == golden.at("logcnt")));
}

json plan_in_process(const std::string& text) {
  const epsim::PlanRequest request = epsim::read_plan_request(epsim::Config::from_text(text, "request.json"));
  const epsim::PlacementPlan plan = epsim::make_plan(request);
  return json::parse(epsim::plan_json(plan, request, epsim::plan_figures(plan, request)));
}

json plan_by_program(const TempDir& dir, const std::string& text) {
  std::ofstream(dir / "request.json") << text;
  const epsim::test::Outcome outcome = epsim::test::run_epsim(dir, "plan request.json -o -");
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return json::parse(outcome.out);
}

}  // namespace

TEST_CASE("plan golden: every case of the original program, in both tie orders") {
  const std::vector<json> cases = epsim::test::eplb_golden_cases();
  CHECK(cases.size() >= 115);
  for (const json& golden : cases) {
    CAPTURE(golden.at("name").get<std::string>());
    for (const bool stable : {false, true}) {
      CAPTURE(stable);
      check_plan(golden, plan_in_process(request_for(golden, "auto", stable ? "stable" : "libstdcxx")), stable);
    }
    // The mode that the file names is what `auto` chooses.
    check_plan(golden, plan_in_process(request_for(golden, golden.at("mode"), "stable")), true);
  }
}

TEST_CASE("plan golden: the program itself, on one case of each kind and the full sizes") {
  const TempDir dir;
  std::set<std::string> kinds;
  for (const json& golden : epsim::test::eplb_golden_cases()) {
    const std::string name = golden.at("name");
    CAPTURE(name);
    const std::string kind = name.substr(0, name.find("__"));
    if (kinds.insert(kind).second) {
      check_plan(golden, plan_by_program(dir, request_for(golden, "auto", "libstdcxx")), false);
      check_plan(golden, plan_by_program(dir, request_for(golden, "auto", "stable")), true);
    }
  }
  CHECK(kinds.size() >= 10);
}
