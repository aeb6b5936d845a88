// The claims of CRAFT that need no serving run, on few batches; and that claims ask for what they use.
#include "sim/reproduce/craft_claims.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

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
  CHECK(claims.size() == 32);
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
