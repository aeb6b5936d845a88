// --split of compare and goodput through the program itself.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

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
