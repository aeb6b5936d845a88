// Verdicts and intervals of claims.
#include "sim/reproduce/claim.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/reproduce/reproduction.h"

namespace epsim {
namespace {

ClaimRow ratio_claim(double value) {
  ClaimRow row = named_row("C99", "A / B", "1.4x");
  row.value = value;
  row.low = 1.25;
  row.high = 1.6;
  row.no_effect = 1;
  row.stated = 1.4;
  return row;
}

TEST_CASE("a verdict: inside the tolerance, on the claim's side of no effect, or neither") {
  CHECK(ratio_claim(1.25).verdict() == Verdict::kReproduced);
  CHECK(ratio_claim(1.6).verdict() == Verdict::kReproduced);
  CHECK(ratio_claim(1.2).verdict() == Verdict::kOrderOnly);
  CHECK(ratio_claim(1.9).verdict() == Verdict::kOrderOnly);
  CHECK(ratio_claim(1.0).verdict() == Verdict::kMissed);
  CHECK(ratio_claim(0.9).verdict() == Verdict::kMissed);
  ClaimRow exact = named_row("C05", "copies", "7.25x");
  exact.low = exact.high = 7.25;
  exact.value = 7.25;
  CHECK(exact.verdict() == Verdict::kReproduced);
  exact.value = 7.2500001;
  CHECK(exact.verdict() == Verdict::kMissed);
  // A figure that is not a number is never reproduced.
  CHECK(ratio_claim(std::nan("")).verdict() == Verdict::kMissed);
  ClaimRow open = ratio_claim(INFINITY);
  open.high = kUnbounded;
  CHECK(open.verdict() == Verdict::kMissed);
}

TEST_CASE("no effect at all is a miss where the tolerance ends there, and not inside it") {
  ClaimRow row = ratio_claim(1.0);
  row.low = 1;
  row.high = kUnbounded;
  CHECK(row.verdict() == Verdict::kMissed);
  CHECK(row.reason() == "no effect at all");
  row.value = 1.0001;
  CHECK(row.verdict() == Verdict::kReproduced);
  row.value = 1;
  row.low = 0.92;  // a size about no effect
  CHECK(row.verdict() == Verdict::kReproduced);
}

TEST_CASE("a setup without a value leaves none to the others, whichever comes first") {
  for (const auto& [a, b] : {std::pair<double, double>{std::nan(""), 1.4}, {1.4, std::nan("")}, {1.4, INFINITY}}) {
    const RatioSummary out = summarize_ratios(std::vector<SetupRatio>{{"a", 0, a}, {"b", 0, b}});
    CHECK(std::isnan(out.mean));
    CHECK(std::isnan(out.min));
    CHECK(std::isnan(out.max));
    CHECK(out.max_setup == (std::isfinite(a) ? "b" : "a"));
  }
}

TEST_CASE("a reason says how far, and in which direction") {
  CHECK(ratio_claim(1.3).reason() == "within the tolerance");
  CHECK(ratio_claim(1.2).reason() == "0.0500 below the tolerance, in the claim's direction");
  CHECK(ratio_claim(1.9).reason() == "0.3000 above the tolerance, in the claim's direction");
  ClaimRow wide = ratio_claim(1.2);
  wide.half_width = 0.1;  // 1.1 to 1.3 reaches 1.25
  CHECK(wide.reason() == "0.0500 below the tolerance, which its interval reaches, in the claim's direction");
  CHECK(ratio_claim(std::nan("")).reason() == "there is no value");
}

TEST_CASE("all_hold() asks for every row that must hold, and no other") {
  std::vector<ClaimRow> rows{ratio_claim(1.3), ratio_claim(1.1)};
  CHECK(!all_hold(rows));
  rows[1].must_hold = false;
  CHECK(all_hold(rows));
}

TEST_CASE("a reproduction says how many figures that must hold do, or that none must") {
  Reproduction done{{ratio_claim(1.3), ratio_claim(1.1)}, {}};
  CHECK(reproduction_text(done).find("1 of the 2 figures that must hold") != std::string::npos);
  for (ClaimRow& row : done.rows) {
    row.must_hold = false;
  }
  CHECK(reproduction_text(done).find("None of these figures must hold") != std::string::npos);
}

TEST_CASE("the interval pools the variance between seeds over setups") {
  // Setup a: 1.0 and 1.2 (mean 1.1, variance 0.02); setup b: 1.4 and 1.4 (mean 1.4, variance 0). Pooled variance 0.01
  // with 2 degrees of freedom, t = 4.303. Mean of means 1.25; its standard error sqrt(0.01 / 2 seeds / 2 setups) =
  // 0.05.
  const std::vector<SetupRatio> ratios{{"a", 0, 1.0}, {"a", 1, 1.2}, {"b", 0, 1.4}, {"b", 1, 1.4}};
  const RatioSummary out = summarize_ratios(ratios);
  CHECK(out.mean == doctest::Approx(1.25));
  CHECK(out.max == doctest::Approx(1.4));
  CHECK(out.max_setup == "b");
  CHECK(out.min == doctest::Approx(1.1));
  CHECK(out.min_setup == "a");
  CHECK(out.mean_half_width.value() == doctest::Approx(4.303 * 0.05).epsilon(1e-3));
  CHECK(out.setup_half_width.value() == doctest::Approx(4.303 * std::sqrt(0.005)).epsilon(1e-3));
}

TEST_CASE("the interval has in it what searches do not resolve") {
  // As above without spread between seeds: deviations of 0.03 and 0.01, root mean square sqrt(0.0005); over 2 seeds, and
  // over 2 setups for the mean.
  const std::vector<SetupRatio> ratios{{"a", 0, 1, 0.03}, {"a", 1, 1, 0.03}, {"b", 0, 1, 0.01}, {"b", 1, 1, 0.01}};
  const RatioSummary out = summarize_ratios(ratios);
  CHECK(out.setup_half_width.value() == doctest::Approx(1.96 * std::sqrt(0.0005 / 2)));
  CHECK(out.mean_half_width.value() == doctest::Approx(1.96 * std::sqrt(0.0005 / 4)));
}

TEST_CASE("one seed has no interval") {
  const std::vector<SetupRatio> ratios{{"a", 0, 1.0}, {"b", 0, 1.4}};
  CHECK(summarize_ratios(ratios).mean == doctest::Approx(1.2));
  CHECK(!summarize_ratios(ratios).mean_half_width.has_value());
}

TEST_CASE("claims.json keeps every field, and null where a bound is open") {
  ClaimRow open = ratio_claim(1.3);
  open.low = -INFINITY;
  const std::vector<ClaimRow> rows{ratio_claim(1.3), open, ratio_claim(0.5)};
  const auto json = nlohmann::json::parse(claims_json(rows, {"0.1.0", "CRAFT", "two seeds", {"C02"}}));
  CHECK(json["claims_reproduced"] == 2);
  CHECK(json["claims_missed"] == 1);
  CHECK(json["all_hold"] == false);
  CHECK(json["claims_not_run"][0] == "C02");
  CHECK(json["claims"][0]["verdict"] == "reproduced");
  CHECK(json["claims"][0]["half_width"].is_null());
  CHECK(json["claims"][0]["tolerance_low"] == 1.25);
  CHECK(json["claims"][1]["tolerance_low"].is_null());
  CHECK(json["claims"][2]["reason"] == "0.7500 below the tolerance, not in the claim's direction");
}

TEST_CASE("claims without figures are told with what holds them, or why nothing does") {
  const std::vector<ClaimElsewhere> claims{{"C30", "the example", "Fig. 10", "tests/x_test.cpp", ""},
                                           {"C31", "the baselines", "Sec. 5", "", "no system is priced"}};
  CHECK(elsewhere_text(claims) ==
        "C30 the example: held by tests/x_test.cpp\nC31 the baselines: not checked: no system is priced\n");
  const auto json = nlohmann::json::parse(claims_json({}, {"0.1.0", "X", "", {}, claims}));
  CHECK(json["claims_elsewhere"][0]["held_by"] == "tests/x_test.cpp");
  CHECK(json["claims_elsewhere"][1]["open_reason"] == "no system is priced");
}

TEST_CASE("the table tells verdicts, notes and the sum") {
  ClaimRow row = ratio_claim(1.31);
  row.half_width = 0.02;
  row.note = "read so";
  const std::vector<ClaimRow> rows{row};
  const std::string text = claims_table(rows, true);
  CHECK(text.find("1.310 +- 0.02") != std::string::npos);
  CHECK(text.find("95 %") != std::string::npos);
  CHECK(claims_table(std::vector<ClaimRow>{ratio_claim(1.31)}, true).find("95 %") == std::string::npos);  // one seed
  CHECK(text.find("1.250 to 1.600") != std::string::npos);
  CHECK(text.find("read so") != std::string::npos);
  CHECK(text.find("1 reproduced, 0 in order only, 0 missed") != std::string::npos);
}

}  // namespace
}  // namespace epsim
