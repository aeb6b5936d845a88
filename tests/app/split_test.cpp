// What comparisons run besides the policies asked for, and --split, through the program itself.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

const nlohmann::json& row_labelled(const nlohmann::json& comparison, const std::string& label) {
  for (const nlohmann::json& run : comparison["runs"]) {
    if (run["policy"] == label) {
      return run;
    }
  }
  FAIL("no run of that label");
  return comparison;
}

}  // namespace

TEST_CASE("compare --split adds contiguous, base and the variants, and the parts add up to the gain") {
  const TempDir dir;
  const Outcome done = run_epsim(
      dir, "compare " + small_scenario() + " --policies eplb_sglang --split --json -q --set requests.rate=1000/s");
  CHECK_MESSAGE(done.exit_code == 0, done.err);
  const auto told = nlohmann::json::parse(done.out);
  REQUIRE(told["gain_split"].size() == 1);
  const auto& split = told["gain_split"][0];
  CHECK(split["policy"] == "eplb_sglang");
  double sum = 0;
  for (const auto& part : split["parts"]) {
    sum += part["requests_per_s"]["mean"].get<double>();
  }
  const auto rate = [&](const std::string& label) {
    return row_labelled(told, label).at("throughput").at("requests_per_s").get<double>();
  };
  CHECK(sum == doctest::Approx(rate("eplb_sglang") - rate("contiguous")));
  // Without what copies take there is as much room as without copies.
  const auto room = [&](const std::string& label) {
    return row_labelled(told, label).at("kv").at("kv_tokens_per_rank").get<double>();
  };
  CHECK(room("eplb_sglang") < room("base"));
  CHECK(room("eplb_sglang:kv_free") == room("base"));
  CHECK(room("eplb_sglang:even") == room("eplb_sglang"));
  CHECK(split["interaction"]["part"] == "choice x KV room");
}

TEST_CASE("an entry's own options hold for its variants") {
  const TempDir dir;
  const Outcome done = run_epsim(
      dir, "compare " + small_scenario() +
               " --policies many --split --json -q --set 'policies.many={kind: eplb, num_redundant_experts: 32}'");
  CHECK_MESSAGE(done.exit_code == 0, done.err);
  const auto told = nlohmann::json::parse(done.out);
  CHECK(row_labelled(told, "many:kv_free").at("plan") == row_labelled(told, "many").at("plan"));
}

TEST_CASE(
    "a comparison of several policies has load balancing off and placement alone unless only those listed are to run") {
  const TempDir dir;
  const auto labels = [&](const std::string& arguments) {
    const Outcome done =
        run_epsim(dir, "compare " + small_scenario() + " --json -q --set requests.rate=1000/s " + arguments);
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    std::set<std::string> out;
    const auto told = nlohmann::json::parse(done.out);
    for (const nlohmann::json& run : told["runs"]) {
      out.insert(run["policy"].get<std::string>());
    }
    return out;
  };
  CHECK(labels("--policies eplb,base") == std::set<std::string>{"base", "contiguous", "eplb"});
  CHECK(labels("--policies eplb,base --only-listed") == std::set<std::string>{"base", "eplb"});
  CHECK(labels("--policies eplb") == std::set<std::string>{"eplb"});  // compared with nothing
  // One label runs another engine: experts in order under the scenario's own would change two things at a time.
  CHECK(labels("--policies eplb,other --set 'policies.other={kind: base, serving: {max_running_requests: 8}}'") ==
        std::set<std::string>{"eplb", "other"});
}

TEST_CASE("where experts in order cannot be run, the comparison goes on without and says why") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "compare " + small_scenario() +
                                          " --policies a,b --set cluster.nodes=3 --set 'policies={a: {kind: "
                                          "eplb, num_redundant_experts: 8}, b: "
                                          "{kind: eplb_vllm, num_redundant_experts: 8}}'");
  CHECK_MESSAGE(done.exit_code == 0, done.err);
  CHECK(done.err.find("contiguous and base cannot be run here") != std::string::npos);
}

TEST_CASE("sweep --split: the parts of each gain by combination, adding up to the whole") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "sweep " + small_scenario() +
                                          " --policies eplb --split --json -q --set requests.rate=1000/s --vary "
                                          "policies.eplb.num_redundant_experts=0,16");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const auto told = nlohmann::json::parse(done.out);
  std::map<std::string, double> parts, wholes;
  for (const nlohmann::json& row : told["gains"]) {
    (row["part"] == "whole" ? wholes : parts)[row["policies.eplb.num_redundant_experts"].get<std::string>()] +=
        row["requests_per_s"].get<double>();
  }
  REQUIRE(wholes.size() == 2);
  CHECK(parts["0"] == doctest::Approx(wholes["0"]));
  CHECK(parts["16"] == doctest::Approx(wholes["16"]));
  // Without copies EPLB is placement alone.
  CHECK(told["gains"][1]["part"] == "copies");
  CHECK(told["gains"][1]["requests_per_s"].get<double>() == 0);
}
