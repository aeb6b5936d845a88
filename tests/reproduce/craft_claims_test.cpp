// The claims of CRAFT that need no serving run, on few batches; and that claims ask for what they use.
#include "sim/reproduce/craft_claims.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

#include "sim/cluster/run_policy.h"
#include "sim/reproduce/craft_gather.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

CraftStudyOptions few_batches() {
  CraftStudyOptions options;
  options.overrides = {"plan_loads.steps=60", "loads.steps=2", "requests.count=10"};
  return options;
}

CraftEvidence gather(const std::vector<CraftClaim>& claims, const CraftScope& scope) {
  std::vector<CraftNeed> needs;
  for (const CraftClaim& claim : claims) {
    const std::vector<CraftNeed> more = claim.needs(scope);
    needs.insert(needs.end(), more.begin(), more.end());
  }
  return gather_craft_evidence(needs, few_batches(), {});
}

TEST_CASE("ids ascend and none is there twice") {
  const auto claims = craft_claims();
  CHECK(claims.size() == 34);  // C01 to C32, F01, F02
  CHECK(std::is_sorted(claims.begin(), claims.end(),
                       [](const CraftClaim& a, const CraftClaim& b) { return a.id < b.id; }));
  CHECK(std::adjacent_find(claims.begin(), claims.end(),
                           [](const CraftClaim& a, const CraftClaim& b) { return a.id == b.id; }) == claims.end());
}

TEST_CASE("what follows from counting and from the algorithm is reproduced") {
  std::vector<CraftClaim> claims;
  for (const CraftClaim& claim : craft_plan_claims()) {
    // C32 is about 3000 batches, which this test does not draw; C06, C14 and C26 need the other sizes of cluster.
    if (claim.id != "C32" && claim.id != "C06" && claim.id != "C14" && claim.id != "C26") {
      claims.push_back(claim);
    }
  }
  const CraftEvidence evidence = gather(claims, {});
  for (const CraftClaim& claim : claims) {
    for (const ClaimRow& row : claim.rows(evidence, {})) {
      CAPTURE(row.id);
      CAPTURE(row.what);
      CAPTURE(row.value);
      CHECK((!row.must_hold || row.verdict() == Verdict::kReproduced));
    }
  }
}

TEST_CASE("a claim's rows use only what its own needs gather") {
  // SetupEvidence::of() and find() fail on evidence that was not asked for.
  for (const CraftClaim& claim : craft_plan_claims()) {
    if (claim.id == "C16" || claim.id == "C31") {
      CAPTURE(claim.id);
      CHECK(!claim.rows(gather({claim}, {}), {}).empty());
    }
  }
}

// At saturation, with requests enough to fill every KV pool. EPLB's 60 copies per GPU leave 12 requests of 4352 tokens
// per node of K*6's pool (41 % of 8.36 GiB at 70,272 bytes a token); on 12 nodes there is room for 54.
TEST_CASE("on 6 nodes EPLB is bound by KV cache, on 12 by the wire") {
  CraftStudyOptions options = few_batches();
  options.overrides = {"plan_loads.steps=20", "loads.steps=2", "requests.count=1500"};
  options.seeds = 1;
  std::vector<CraftNeed> needs;
  for (const char* setup : {"ke6", "ke12"}) {
    needs.push_back({.setup = setup, .policy = "eplb", .saturated = true});
  }
  const CraftEvidence evidence = gather_craft_evidence(needs, options, {});
  const Saturated six = evidence.at("ke6").of("eplb").saturated.front(),
                  twelve = evidence.at("ke12").of("eplb").saturated.front();
  CAPTURE(six.kv_wait_share);
  CAPTURE(six.exchange_share);
  CAPTURE(twelve.kv_wait_share);
  CAPTURE(twelve.exchange_share);
  CHECK(six.wait_over_exchange() > 1);
  CHECK(twelve.wait_over_exchange() < 1);
}

// Completions per second of EPLB on K*6 when all requests come at once.
double saturation_of_eplb(const std::vector<std::string>& more) {
  std::vector<std::string> overrides{"plan_loads.steps=20", "loads.steps=2", "requests.count=800"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Scenario s = craft_scenario(craft_setup("ke6"), CraftMemory::kOneRule, overrides, {"eplb"});
  const PreparedRun prepared = prepare_run(s, s.policies.front());
  return saturation_rate(run_prepared(s, prepared, as_burst(s.requests), {}), {});
}

TEST_CASE("on 6 nodes a fifth of EPLB's KV pool is worth more than a fifth of the links' speed") {
  const double plain = saturation_of_eplb({});
  // 8.36 GiB less 60 copies of 84 MiB leave 3.44 GiB, a fifth of which is 0.69 GiB.
  const double less_kv = saturation_of_eplb({"memory.reserve=0.69GiB"});
  std::string slow = "faults=[";
  for (int node = 0; node < 6; ++node) {
    slow += "{at: 0s, node: " + std::to_string(node) + ", link_speed: 0.8},";
  }
  const double less_wire = saturation_of_eplb({slow + "]"});
  CAPTURE(plain);
  CHECK(less_kv < less_wire);
  CHECK(less_wire < plain);
}

const CraftClaim& claim_of(std::string_view id) {
  const auto claims = craft_claims();
  return *std::find_if(claims.begin(), claims.end(), [&](const CraftClaim& c) { return c.id == id; });
}

// Two seeds on one setup: an interval is t * sqrt(variance / 2), t = 12.706 with one degree of freedom, and of two
// figures that lie d apart the variance is d^2 / 2, so its half width is 12.706 d / 2.
constexpr double kHalfOfGap = 12.706 / 2;

TEST_CASE("what is run near knees, at a fixed rate and at saturation has an interval over seeds") {
  constexpr std::string_view kDe8[] = {"de8"}, kKe6[] = {"ke6"};
  CraftEvidence evidence;
  evidence["de8"].seeds = evidence["ke6"].seeds = 2;
  const auto add = [&](const char* policy, double step_0, double step_1, double ttft_0, double ttft_1) {
    PolicyEvidence& out = evidence["de8"].policies[policy];
    out.near_knee.resize(2);
    out.near_knee[0].decode_step_s = step_0;
    out.near_knee[1].decode_step_s = step_1;
    out.fixed = {{1.6, ttft_0}, {1.6, ttft_1}};
  };
  add("base", 0.12, 0.11, 4, 5);
  add("cra8", 0.11, 0.10, 3, 4);
  add("eplb", 0.10, 0.10, 2, 4);
  // 20 and 10 % apart.
  const ClaimRow steps = claim_of("C28").rows(evidence, {.only = kDe8}).front();
  CHECK(steps.value == doctest::Approx(15));
  CHECK(steps.half_width.value() == doctest::Approx(10 * kHalfOfGap).epsilon(1e-4));
  // CRA8 saves 25 and 20 %.
  const std::vector<ClaimRow> cra8 = claim_of("C07").rows(evidence, {.only = kDe8});
  CHECK(cra8[0].value == doctest::Approx(22.5));
  CHECK(cra8[0].half_width.value() == doctest::Approx(5 * kHalfOfGap).epsilon(1e-4));
  CHECK(cra8[0].note.find("at 90 % of the lowest") != std::string::npos);
  CHECK(cra8[1].value == doctest::Approx(22.5));
  CHECK(cra8[1].note == "on de8");
  CHECK(cra8[1].half_width.has_value());
  // EPLB saves 50 and 20 %: 25 points more than CRA8 under one seed, as much under the other.
  const ClaimRow apart = claim_of("C08").rows(evidence, {.only = kDe8})[2];
  CHECK(apart.value == doctest::Approx(12.5));
  CHECK(apart.half_width.value() == doctest::Approx(25 * kHalfOfGap).epsilon(1e-4));

  for (const char* policy : {"eplb", "cra8", "base"}) {
    evidence["ke6"].policies[policy].saturated = {{0.6, 0.4}, {0.5, 0.5}};  // ratios 1.5 and 1
  }
  const ClaimRow bound = claim_of("F01").rows(evidence, {.only = kKe6}).front();
  CHECK(bound.value == doctest::Approx(1.25));
  CHECK(bound.half_width.value() == doctest::Approx(0.5 * kHalfOfGap).epsilon(1e-4));
}

// Ratios to cra8's knee by seed: cra2 0.90 and 0.90, cra4 0.98 and 1.00, cra16 0.97 and 0.97, cra32 0.80 and 0.80. One
// of the four varies: pooled variance 0.0002 / 4, t = 2.776 with 4 degrees of freedom, half width 2.776 x 0.005 =
// 0.014.
TEST_CASE("the best R is told with those that are as good") {
  CraftEvidence evidence;
  for (const char* name : {"de8", "ke8"}) {
    evidence[name].seeds = 2;
    const auto add = [&](const char* policy, double first, double second) {
      PolicyEvidence& out = evidence[name].policies[policy];
      out.searches.resize(2);
      out.searches[0].knee.rate = 2 * first;
      out.searches[1].knee.rate = 3 * second;
    };
    add("cra2", 0.90, 0.90);
    add("cra4", 0.98, 1.00);
    add("cra8", 1, 1);
    add("cra16", 0.97, 0.97);
    add("cra32", 0.80, 0.80);
    add("eplb", 0.85, 0.75);
  }
  const std::vector<ClaimRow> rows = claim_of("C27").rows(evidence, {});
  CHECK(rows[0].value == 8);
  CHECK(rows[0].note.ends_with("not told apart from it: cra4"));
  CHECK(rows[1].value == doctest::Approx(0.80));
  CHECK(rows[1].half_width.value() == doctest::Approx(0.10 * kHalfOfGap).epsilon(1e-4));
}

TEST_CASE("a quick reproduction runs three setups and says which claims it leaves out") {
  const CraftScope quick{true};
  std::map<std::string_view, int> setups;
  for (const CraftClaim& claim : craft_claims()) {
    for (const CraftNeed& need : claim.needs(quick)) {
      ++setups[need.setup];
    }
  }
  CHECK(setups.size() == 3);
  CHECK(setups.contains("de8"));
  CHECK(setups.contains("dl8"));
  CHECK(setups.contains("ke6"));
  // A claim without anything to check it on has no row rather than an empty mean.
  for (const CraftClaim& claim : craft_claims()) {
    if (claim.needs(quick).empty() && claim.id != "C30") {
      CAPTURE(claim.id);
      CHECK(claim.rows({}, quick).empty());
    }
  }
}

}  // namespace
}  // namespace epsim
