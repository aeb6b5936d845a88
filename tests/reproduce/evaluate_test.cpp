// What figures come to, on evidence made by hand.
#include "sim/reproduce/evaluate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

namespace epsim {
namespace {

const std::map<std::string, std::string> kNames{{"knee", "goodput.knee_requests_per_s"},
                                                {"step", "near_knee.step_mean_ms"}};

// Two seeds on one setup: an interval is t * sqrt(variance / 2), t = 12.706 with one degree of freedom, and of two
// figures that lie d apart the variance is d^2 / 2, so its half width is 12.706 d / 2.
constexpr double kHalfOfGap = 12.706 / 2;

JobFigures searched(double knee, double step_ms = 0) {
  JobFigures out{GoodputSearch{}, {{"step_mean_ms", step_ms}}};
  out.search->knee = {.k = 5, .rate = knee};
  out.search->sensitivity = {{.k = 8, .rate = 2 * knee}};
  out.search->saturation = knee * knee;
  return out;
}

PaperClaim claim_with(const std::string& value, std::vector<std::pair<std::string, std::string>> setups) {
  PaperClaim out;
  out.id = "A1";
  ClaimFigure& figure = out.figures.emplace_back();
  figure.what = "w";
  figure.value = parse_expression(value, kNames);
  figure.setups = std::move(setups);
  figure.high = 100;
  return out;
}

class Fixture {
 public:
  Fixture() { options.goodput.sensitivity.clear(); }
  void add(const char* setup, const char* policy, std::vector<JobFigures> by_seed) {
    options.seeds = static_cast<int>(by_seed.size());
    evidence[setup].policies[policy].by_seed[0] = std::move(by_seed);
  }
  ClaimRow row(const PaperClaim& claim) { return rows_of(claim, evidence, options, {}).at(0); }

  PaperEvidence evidence;
  GatherOptions options;
};

TEST_CASE_FIXTURE(Fixture, "a mean over setups of ratios under the same seed, with its interval") {
  add("s1", "a", {searched(1), searched(2)});
  add("s1", "b", {searched(2), searched(2)});
  const ClaimRow row = this->row(claim_with("knee(b) / knee(a)", {{"s1", ""}}));
  CHECK(row.value == 1.5);  // 2 and 1
  CHECK(row.half_width.value() == doctest::Approx(1 * kHalfOfGap).epsilon(1e-4));
}

TEST_CASE_FIXTURE(Fixture, "largest and smallest say on which setup") {
  for (const auto& [setup, knee] : {std::pair{"s1", 1.0}, {"s2", 4.0}, {"s3", 2.0}}) {
    add(setup, "a", {searched(knee)});
  }
  PaperClaim claim = claim_with("knee(a)", {{"s1", ""}, {"s2", ""}, {"s3", ""}});
  CHECK(row(claim).value == doctest::Approx(7.0 / 3));
  claim.figures[0].over = Over::kLargest;
  CHECK(row(claim).value == 4);
  CHECK(row(claim).note.find("on s2") != std::string::npos);
  claim.figures[0].over = Over::kSmallest;
  CHECK(row(claim).value == 1);
  CHECK_FALSE(row(claim).half_width.has_value());  // one seed
}

TEST_CASE_FIXTURE(Fixture, "other setups stand beside those of the figure") {
  add("six", "a", {searched(2)});
  add("eight", "a", {searched(3)});
  CHECK(row(claim_with("knee(a) / knee(a, other)", {{"eight", "six"}})).value == 1.5);
}

TEST_CASE_FIXTURE(Fixture, "a mean of knees is told at the other values of k and saturated") {
  add("s1", "a", {searched(3)});
  PaperClaim claim = claim_with("knee(a)", {{"s1", ""}});
  claim.figures[0].high = 7;
  options.goodput.sensitivity = {8};
  CHECK(row(claim).note == "at other k (* within the tolerance): 8: 6.00*, saturation throughput: 9.00");
  const ClaimRow at8 = rows_of(claim, evidence, options, {}, 8.0).at(0);
  CHECK(at8.value == 6);
}

TEST_CASE_FIXTURE(Fixture, "the best policy has the largest mean over seeds") {
  add("s1", "a", {searched(4), searched(1)});
  add("s1", "b", {searched(3), searched(3)});
  add("s1", "c", {searched(1), searched(2)});
  PaperClaim claim = claim_with("knee(best) / knee(c)", {{"s1", ""}});
  claim.best = BestPolicy{parse_expression("knee(any)", kNames).metric, {"a", "b"}};
  CHECK(row(claim).value == doctest::Approx((3.0 / 1 + 3.0 / 2) / 2));
  CHECK(row(claim).note.find("the best is b") != std::string::npos);
}

TEST_CASE_FIXTURE(Fixture, "there is no best policy where one has no value") {
  add("s1", "a", {searched(4)});
  add("s1", "b", {searched(std::nan(""))});
  for (const auto& order : {std::vector<std::string>{"a", "b"}, {"b", "a"}}) {
    PaperClaim claim = claim_with("knee(best)", {{"s1", ""}});
    claim.best = BestPolicy{parse_expression("knee(any)", kNames).metric, order};
    CHECK(row(claim).verdict() == Verdict::kMissed);
    CHECK(row(claim).note.find("the best") == std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "an exact figure is compared to nine digits") {
  evidence["s1"].policies["a"].plan = {{"copies_per_gpu", 0.1 + 0.2}};
  PaperClaim claim = claim_with("plan.copies_per_gpu(a)", {{"s1", ""}});
  claim.figures[0].low = claim.figures[0].high = 0.3;
  CHECK(row(claim).verdict() == Verdict::kMissed);  // 0.1 + 0.2 is not 0.3
  claim.figures[0].exact = true;
  CHECK(row(claim).verdict() == Verdict::kReproduced);
}

TEST_CASE_FIXTURE(Fixture, "what stands beside a figure is told setup by setup") {
  add("s1", "a", {searched(3, 20)});
  PaperClaim claim = claim_with("knee(a)", {{"s1", ""}});
  claim.figures[0].beside = {{"step in ms", parse_expression("step(a)", kNames)}};
  CHECK(row(claim).note.find("s1 3.000 (step in ms 20.00)") != std::string::npos);
}

TEST_CASE("a scope leaves out setups, figures without any, and claims that take long") {
  PaperStudy paper;
  paper.below_knee["s1"] = {"a", "c"};
  PaperClaim first = claim_with("below_knee.ttft_mean_ms(a)", {{"s1", ""}, {"s2", ""}});
  PaperClaim pair = claim_with("knee(b) / knee(b, other)", {{"s1", "s2"}});
  PaperClaim sweep = claim_with("run.steps(a)", {{"s1", ""}});
  sweep.takes_long = true;
  const PaperScope part{std::vector<std::string>{"s1"}};
  const PaperNeeds needs = needs_of(paper, {first, pair, sweep}, part);
  REQUIRE(needs.size() == 1);
  CHECK(needs.at("s1").size() == 2);
  // The rate below the knees takes the searches of all that count for it.
  CHECK(needs.at("s1").at("a") == std::array{true, true, false, false});
  CHECK(needs.at("s1").at("c") == std::array{true, false, false, false});
  CHECK(rows_of(pair, {}, {}, part).empty());
  CHECK(needs_of(paper, {pair, sweep}, {}).at("s1").at("a")[3]);
  CHECK(needs_of(paper, {pair}, {}).at("s2").at("b")[0]);
}

}  // namespace
}  // namespace epsim
