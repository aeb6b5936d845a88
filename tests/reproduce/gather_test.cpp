// What is gathered of a policy beside its plan: a search, the run next below its knee, one at a rate that all share, one
// at saturation; and that it reads back as it was.
#include "sim/reproduce/gather.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "sim/cluster/run_policy.h"
#include "sim/study/goodput.h"
#include "sim/study/load_point.h"
#include "tests/report/sample_study.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

const PaperStudy& craft() {
  static const PaperStudy read = read_paper_study(test::source_dir() / "experiments/craft/claims.yaml");
  return read;
}

// Short requests, in the system for a few steps: its runs take milliseconds, and 300 of them are enough.
GatherOptions small_study() {
  GatherOptions options;
  options.overrides = {"plan_loads.steps=4",        "loads.steps=2",
                       "requests.count=300",        "requests.input_tokens=512",
                       "requests.output_tokens=16", "requests.rate=2/s"};
  options.goodput.min_requests_ratio = 1;
  return options;
}

TEST_CASE("near the knee are the figures of the search's own run; the rate below is 90 % of the lowest knee") {
  PaperStudy study = craft();
  study.below_knee = {{"ke6", {"base", "eplb"}}};
  const GatherOptions options = small_study();
  const PaperNeeds needs{{"ke6", {{"base", {true, true, false, true}}, {"eplb", {true, true, false, false}}}}};
  const SetupEvidence found = gather(study, needs, options, {}).at("ke6");
  const auto knee = [&](const char* policy) {
    return found.policies.at(policy).of(PaperJob::kGoodput)[0].search->knee.rate;
  };
  const double lowest = std::min(knee("base"), knee("eplb"));

  const Scenario scenario = scenario_of(study, "ke6", options, {"base", "eplb"});
  for (std::size_t p = 0; p < 2; ++p) {
    const PolicyEvidence& of = found.policies.at(scenario.policies[p].label);
    const JobFigures& searched = of.of(PaperJob::kGoodput).front();
    const LoadPoint& below = searched.search->best;
    const RunControl control;
    const SearchTarget target = target_of(
        scenario, std::make_shared<const PreparedRun>(prepare_run(scenario, scenario.policies[p])), 0, control);
    const RunResult run =
        target.serve(at_rate(first_of(*target.trace, static_cast<std::size_t>(below.requests)), below.offered));
    REQUIRE(run.fingerprint == below.fingerprint);
    CHECK(searched.numbers.at("offered_requests_per_s") == below.offered);
    CHECK(searched.numbers.at("itl_mean_ms") == doctest::Approx(run.latency.itl_s.mean * 1e3));
    const KindTotals& decodes = run.of_kind(StepKind::kDecode);
    CHECK(searched.numbers.at("decode_step_mean_ms") ==
          doctest::Approx(decodes.time.total.count() / static_cast<double>(decodes.steps) * 1e3));

    REQUIRE(of.of(PaperJob::kBelowKnee).size() == 1);
    const Numbers& shared = of.of(PaperJob::kBelowKnee).front().numbers;
    CHECK(shared.at("offered_requests_per_s") == 0.9 * lowest);
    CHECK(shared.at("ttft_mean_ms") < 1e3 * options.goodput.k * searched.search->idle_ttft_s);
    CHECK(of.of(PaperJob::kSaturated).empty());
  }
  // The run is that of `epsim compare`.
  const RunResult whole = run_policy(scenario, scenario.policies[0], {});
  CHECK(found.policies.at("base").of(PaperJob::kRun)[0].numbers.at("requests_per_s") * to_seconds(whole.end).count() ==
        doctest::Approx(300).epsilon(0.01));
}

// At saturation, with requests enough to fill every KV pool. EPLB's 60 copies per GPU leave 12 requests of 4352 tokens
// per node of K*6's pool (41 % of 8.36 GiB at 70,272 bytes a token); on 12 nodes there is room for 54.
TEST_CASE("CRAFT, F01: on 6 nodes EPLB is bound by KV cache, on 12 by the wire") {
  GatherOptions options;
  options.overrides = {"plan_loads.steps=20", "loads.steps=2", "requests.count=1500"};
  PaperNeeds needs;
  for (const char* setup : {"ke6", "ke12"}) {
    needs[setup]["eplb"] = {false, false, true, false};
  }
  const PaperEvidence evidence = gather(craft(), needs, options, {});
  const auto wait_over_exchange = [&](const char* setup) {
    const Numbers& run = evidence.at(setup).policies.at("eplb").of(PaperJob::kSaturated).front().numbers;
    return run.at("kv_full_time_share") / (run.at("dispatch_share") + run.at("combine_share"));
  };
  CHECK(wait_over_exchange("ke6") > 1);
  CHECK(wait_over_exchange("ke12") < 1);
}

TEST_CASE("what is kept of a job has every figure, to the last bit; damaged text is as good as absent") {
  std::vector<JobFigures> before(2);
  before[0].search = test::sample_search("cra8", 0, 1.0 / 3, 6.1);
  before[0].search->knee.limit = KneeLimit::kUnstable;
  before[0].search->curve[0].tpot_s.mean = std::nan("");  // no request with a second token
  before[0].numbers = {{"itl_mean_ms", 0.1}};
  before[1].numbers = {{"ttft_mean_ms", 1e-9 / 3}};
  const std::string text = stored_text(before);
  const auto after = stored_figures(text);
  REQUIRE(after.has_value());
  CHECK(stored_text(*after) == text);
  REQUIRE(after->size() == 2);
  CHECK(after->at(0).search->sensitivity[0].rate == 1.0 / 3);
  CHECK(after->at(0).search->knee.limit == KneeLimit::kUnstable);
  CHECK(std::isnan(after->at(0).search->curve[0].tpot_s.mean));
  CHECK_FALSE(after->at(1).search.has_value());
  CHECK(after->at(1).numbers == before[1].numbers);
  for (const std::string& damaged :
       {std::string(), text.substr(0, text.size() / 2), std::string("{\"format\": 0}"), std::string("[]")}) {
    CHECK_FALSE(stored_figures(damaged).has_value());
  }
}

}  // namespace
}  // namespace epsim
