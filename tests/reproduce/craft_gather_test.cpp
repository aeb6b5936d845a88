// What is gathered of a policy beside its search: the run next below its knee, and one at a rate that all share.
#include "sim/reproduce/craft_gather.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "sim/cluster/run_policy.h"
#include "sim/study/load_point.h"

namespace epsim {
namespace {

constexpr const char* kPolicies[] = {"base", "eplb"};

CraftStudyOptions small_study() {
  CraftStudyOptions options;
  options.seeds = 1;
  // Short requests, in the system for a few steps: its runs take milliseconds, and 300 of them are enough.
  options.overrides = {"plan_loads.steps=4",        "loads.steps=2",
                       "requests.count=300",        "requests.input_tokens=512",
                       "requests.output_tokens=16", "requests.rate=2/s"};
  options.goodput.min_requests_ratio = 1;
  return options;
}

// The target of the first seed, made again.
SearchTarget target_again(const Scenario& scenario, std::size_t policy) {
  auto prepared = std::make_shared<const PreparedRun>(prepare_run(scenario, scenario.policies[policy]));
  static const RunControl control;
  return target_of(scenario, std::move(prepared), 0, control);
}

TEST_CASE("near the knee are the figures of the search's own run, and the fixed rate is 90 % of the lowest knee") {
  const CraftStudyOptions options = small_study();
  std::vector<CraftNeed> needs;
  for (const char* policy : kPolicies) {
    needs.push_back({.setup = "ke6", .policy = policy, .searched = true, .fixed_rate = true});
  }
  const SetupEvidence found = gather_craft_evidence(needs, options, {}).at("ke6");
  const double lowest =
      std::min(found.of("base").searches.front().knee.rate, found.of("eplb").searches.front().knee.rate);

  const Scenario scenario = craft_scenario(craft_setup("ke6"), options.memory, options.overrides, {"base", "eplb"});
  for (std::size_t p = 0; p < std::size(kPolicies); ++p) {
    CAPTURE(kPolicies[p]);
    const PolicyEvidence& of = found.of(kPolicies[p]);
    const LoadPoint& below = of.searches.front().best;
    const SearchTarget target = target_again(scenario, p);
    const RunResult run =
        target.serve(at_rate(first_of(*target.trace, static_cast<std::size_t>(below.requests)), below.offered));
    REQUIRE(run.fingerprint == below.fingerprint);
    const NearKnee& near = of.near_knee.front();
    CHECK(near.rate == below.offered);
    CHECK(near.rate <= of.searches.front().knee.rate);
    CHECK(near.itl_mean_s == run.latency.itl_s.mean);
    const KindTotals& decodes = run.of_kind(StepKind::kDecode);
    CHECK(near.decode_step_s == decodes.time.total.count() / static_cast<double>(decodes.steps));

    REQUIRE(of.fixed.size() == 1);
    CHECK(of.fixed.front().rate == kNearSaturation * lowest);
    CHECK(of.fixed.front().ttft_mean_s < options.goodput.k * of.searches.front().idle_ttft_s);
  }
}

}  // namespace
}  // namespace epsim
