#include "sim/report/gain_split.h"

#include <doctest/doctest.h>

#include <numeric>

#include "tests/support/errors.h"

namespace epsim {

using test::check_contains;

namespace {

double rates_of(const GainSplit& split, const std::string& name) {
  for (const GainPart& part : split.parts) {
    if (part.name == name) {
      return part.requests_per_s.mean;
    }
  }
  FAIL("no part of that name");
  return 0;
}

}  // namespace

TEST_CASE("the parts of a gain add up to the whole, whatever is switched on") {
  const std::vector<RateChoice> runs{{"lb", {12.0, 12.2}},
                                     {"contiguous", {10.0, 10.0}},
                                     {"base", {11.0, 11.1}},
                                     {"lb:first_plan", {12.5, 12.5}},
                                     {"lb:kv_free", {13.0, 13.2}},
                                     {"lb:even", {12.4, 12.4}},
                                     {"lb:even_kv_free", {12.8, 13.0}}};
  const std::vector<GainSplit> splits = gain_splits(runs);
  REQUIRE(splits.size() == 1);
  const GainSplit& lb = splits[0];
  CHECK(lb.policy == "lb");
  CHECK(rates_of(lb, "planning again") == doctest::Approx(-0.4));  // 12.1 - 12.5
  CHECK(rates_of(lb, "KV room") == doctest::Approx(-0.6));         // 12.5 - 13.1
  CHECK(rates_of(lb, "choice of copy") == doctest::Approx(0.2));   // 13.1 - 12.9
  CHECK(rates_of(lb, "copies") == doctest::Approx(1.85));          // 12.9 - 11.05
  CHECK(rates_of(lb, "placement") == doctest::Approx(1.05));       // 11.05 - 10
  const double sum = std::accumulate(lb.parts.begin(), lb.parts.end(), 0.0,
                                     [](double s, const GainPart& p) { return s + p.requests_per_s.mean; });
  CHECK(sum == doctest::Approx(lb.whole.requests_per_s.mean));
  CHECK(lb.whole.requests_per_s.mean == doctest::Approx(2.1));
  CHECK(lb.whole.share.mean == doctest::Approx(0.21));
  // With the KV room taken the choice is worth 12.5 - 12.4, without 0.2.
  CHECK(lb.interaction.requests_per_s.mean == doctest::Approx(0.1 - 0.2));
  check_contains(gain_split_table(splits), {"choice of copy", "choice x KV room", "whole"});
  check_contains(gain_sentences(runs)[0], {"together +2.100 (+21.0 %)"});
}

TEST_CASE("a policy that acts in every step has its dispatch and its buffers' room alone") {
  const std::vector<RateChoice> runs{{"contiguous", {10.0}}, {"step", {10.5}}, {"step:dispatch_kv_free", {11.0}}};
  const std::vector<GainSplit> splits = gain_splits(runs);
  REQUIRE(splits.size() == 1);
  CHECK(rates_of(splits[0], "steps") == doctest::Approx(1.0));
  CHECK(rates_of(splits[0], "KV room") == doctest::Approx(-0.5));
}

TEST_CASE("a policy that acts over another's copies has its dispatch, the copies and their placement") {
  const std::vector<RateChoice> runs{{"contiguous", {10.0}},
                                     {"base", {11.0}},
                                     {"step", {13.0}},
                                     {"step:dispatch_kv_free", {13.5}},
                                     {"step:home_kv_free", {12.0}}};
  const std::vector<GainSplit> splits = gain_splits(runs);
  REQUIRE(splits.size() == 1);
  CHECK(rates_of(splits[0], "KV room") == doctest::Approx(-0.5));
  CHECK(rates_of(splits[0], "steps") == doctest::Approx(1.5));
  CHECK(rates_of(splits[0], "copies") == doctest::Approx(1.0));
  CHECK(rates_of(splits[0], "placement") == doctest::Approx(1.0));
}

TEST_CASE("without the variants there is nothing to split but placement alone and what is beyond it") {
  const std::vector<RateChoice> runs{{"contiguous", {10.0, 10.0}}, {"base", {10.5, 10.3}}, {"lb", {11.0, 11.0}}};
  CHECK(gain_splits(runs).empty());
  CHECK(gain_split_table(gain_splits(runs)).empty());
  // Half widths: 12.71 (Student's t, one degree of freedom) * 0.02 / 2 of the means +4 % and +6 %.
  CHECK(
      gain_sentences(runs) ==
      std::vector<std::string>{"Requests/s against load balancing off: placement alone +4.0 +- 12.7 %; lb +10.0 +- 0.0 "
                               "%, which is +6.0 +- 12.7 points beyond placement alone."});
  CHECK(gain_sentences(std::vector<RateChoice>(runs.begin() + 1, runs.end())).empty());
}

}  // namespace epsim
