#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/goodput_branches.h"
#include "sim/report/goodput_summary.h"
#include "sim/report/goodput_writer.h"
#include "tests/report/sample_study.h"
#include "tests/support/errors.h"

namespace epsim {

using test::check_contains;
using test::sample_study;

TEST_CASE("an interval is Student's t over seeds") {
  const double three[] = {1.0, 2.0, 3.0};  // standard deviation 1, t with 2 degrees of freedom 4.303
  CHECK(estimate(three).mean == doctest::Approx(2.0));
  CHECK(estimate(three).half_width == doctest::Approx(4.303 / std::sqrt(3.0)));
  const double one[] = {1.5};
  CHECK(estimate(one).mean == 1.5);
  CHECK(std::isnan(estimate(one).half_width));
}

TEST_CASE("the interval of searched rates also has their brackets in it") {
  // Anywhere in 2 %: deviation 0.02 / sqrt(12) of a rate, times sqrt(2) of a ratio of two; over three seeds.
  const double alike[] = {4.0, 4.0, 4.0};
  CHECK(searched_estimate(alike, 0.02, 1).half_width == doctest::Approx(1.96 * 4 * 0.02 / std::sqrt(12.0 * 3)));
  CHECK(searched_estimate(alike, 0.02, 2).half_width == doctest::Approx(1.96 * 4 * 0.02 / std::sqrt(6.0 * 3)));
  const double three[] = {1.0, 2.0, 3.0};
  CHECK(searched_estimate(three, 0.02, 1).half_width ==
        doctest::Approx(std::hypot(4.303 / std::sqrt(3.0), 1.96 * 2 * 0.02 / 6)));
  const double one[] = {1.5};
  CHECK(std::isnan(searched_estimate(one, 0.02, 1).half_width));
}

TEST_CASE("ratios between policies are taken seed by seed") {
  const std::vector<PolicyGoodput> figures = summarize(sample_study());
  REQUIRE(figures.size() == 2);
  const KneeFigures& base = figures[0].searched();
  CHECK(base.ratio.mean == 1.0);
  CHECK(base.ratio.half_width == 0.0);
  CHECK(base.rate.mean == doctest::Approx(4.5));
  const KneeFigures& eplb = figures[1].searched();
  CHECK(eplb.k == 5);
  CHECK(eplb.ratio.mean == doctest::Approx(1.65));  // (1.5 + 1.8) / 2, not 7.5 / 4.5
  // Deviation of 1.5 and 1.8: 0.3 / sqrt 2; over sqrt 2 seeds: 0.15; t with 1 degree of freedom 12.706. Brackets of 2 %.
  const double brackets = 1.96 * 0.02 * 1.65 * std::sqrt(2 / 12.0 / 2);
  CHECK(eplb.ratio.half_width == doctest::Approx(std::hypot(12.706 * 0.15, brackets)));
  CHECK(figures[1].knees[0].ratio.mean == doctest::Approx((0.5 + 0.52) / 2));
  CHECK(figures[1].kv_lost_share == 0.25);
}

TEST_CASE("a verdict that depends on k is told as such") {
  GoodputStudy study = sample_study();
  const auto with_seeds_alike = [&](double at_2, double at_5) {
    for (int s = 0; s < 2; ++s) {
      study.searches[static_cast<std::size_t>(2 + s)] =
          test::sample_search("eplb", s, at_2 * (s == 0 ? 2 : 2.5), at_5 * (s == 0 ? 4 : 5));
    }
    return goodput_conclusions(study).at(0);
  };
  check_contains(with_seeds_alike(0.8, 1.2),
                 {"1.200 +- 0.014", "above base's", "depends on the definition", "above at k = 5", "below at k = 2"});
  CHECK(with_seeds_alike(1.1, 1.2).find("depends") == std::string::npos);
  check_contains(with_seeds_alike(0.99, 1.01), {"1.010 +- 0.011", "not distinguishable"});  // the brackets of 2 % alone
  check_contains(goodput_conclusions(sample_study()).at(0), {"not distinguishable from base's"});  // 1.65 +- 1.9
}

TEST_CASE("goodput.csv has a row for each policy, seed and k; curve.csv for each probe") {
  const std::string rows = table_csv(goodput_table(sample_study())), probes = table_csv(curve_table(sample_study()));
  check_contains(rows, {"\neplb,8,5,9,1.8,2500,ttft,0.02,1,0,1,500,10,1,0.25,1000\n",
                        "\neplb,7,2,1,0.5,1000,ttft,0.5,0,1,1,500,10,1,0.25,1000\n"});
  CHECK(std::count(rows.begin(), rows.end(), '\n') == 1 + 2 * 2 * 2);
  CHECK(std::count(probes.begin(), probes.end(), '\n') == 1 + 2 * 2 * 2);
  check_contains(probes, {"\nbase,7,4,1000,4,4,800,2400,4800,4.8,100,125,30000,120,,,1,1,5000,00000000deadbeef\n"});
}

TEST_CASE("goodput.json holds the method and the figures, with null for what is not defined") {
  GoodputStudy study = sample_study();
  study.seeds = 1;
  study.searches = {study.searches[0], study.searches[2]};
  const auto json = nlohmann::json::parse(goodput_json(study, {"0.1.0", "s", 7, "", {}}));
  CHECK(json.at("method").at("k") == 5);
  CHECK(json.at("slo").is_null());
  const auto& eplb = json.at("policies").at(1);
  CHECK(eplb.at("knee").at("knee_requests_per_s").at("mean") == 6);
  CHECK(eplb.at("knee").at("knee_requests_per_s").at("half_width").is_null());
  CHECK_FALSE(eplb.contains("slo_requests_per_s"));
  CHECK(eplb.at("sensitivity").size() == 2);
  CHECK(json.at("conclusions").size() == 3);  // the others: what branches would tell, and that there is but one seed
}

TEST_CASE("the terminal shows knees, ratios, bounds and the rules behind them within its width") {
  const std::string text = goodput_tables(sample_study());
  check_contains(text, {"base", "eplb", "4.500", "1.650", "Knee: the largest", "2 (interp.)", "x 1.650"});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(display_width(line) <= 120);
  }
  GoodputStudy beyond = sample_study();
  beyond.searches[0].sensitivity[0].limit = KneeLimit::kBeyond;
  beyond.searches[3].sensitivity[0].steady = false;
  check_contains(goodput_tables(beyond), {">2.250", "x 0.510*"});
}

TEST_CASE("without branches, policies whose backlog is served past k / (k - 1) times their knee are named") {
  // Saturation 10: over base's knees of 4 and 5 by 2.5 and 2, over eplb's of 6 and 9 by 1.67 and 1.11; 1.25 are asked of
  // most seeds.
  const std::string words = goodput_conclusions(sample_study()).at(1);
  check_contains(words,
                 {"it serves more: placement alone 10.00 requests/s (2.25 times its knee). Between", "--branches"});
  GoodputStudy near = sample_study();
  for (GoodputSearch& s : near.searches) {
    s.saturation = 1.2 * s.knee.rate;
  }
  CHECK(goodput_tables(near).find("--branches") == std::string::npos);
}

TEST_CASE("with branches, rates from both starts and knees with prompts together stand side by side") {
  const GoodputStudy study = test::sample_branch_study();
  // base's rates past its knees: 4 x 2.5^(1/3) and 5 x 2^(1/3), and again as far.
  const double third = (4 * std::cbrt(2.5) + 5 * std::cbrt(2.0)) / 2;
  const std::vector<StartFigures> base = start_figures(study, 0);
  REQUIRE(base.size() == 3);
  CHECK(base[0].at_knee);
  CHECK(base[0].apart_seeds == 0);
  CHECK(base[1].rate.mean == doctest::Approx(third));
  CHECK(base[1].apart_seeds == 2);
  CHECK_FALSE(base[1].empty_steady);
  CHECK(base[1].empty_ttft_ms.mean == 40'000);
  CHECK(base[1].backlog_ttft_ms.mean == 4000);
  const AlignedFigures eplb = aligned_figures(study, 1);
  CHECK(eplb.rate.mean == doctest::Approx(1.5 * 7.5));
  CHECK(eplb.gain.mean == doctest::Approx(1.5));
  CHECK(eplb.ratio.mean == doctest::Approx(1.65));
  const std::string text = goodput_tables(study);
  check_contains(text, {"after a backlog:", "prompts held until all DP ranks have one, by serving.hold=true",
                        "placement alone: its knee holds from an empty instance and after a backlog.", "11.25"});
  const std::vector<std::string> words = goodput_conclusions(study);
  check_contains(words.at(1), {"Past it the start matters at", "TTFT is 40.00 and 40.00 s from an empty instance",
                               "4.000 and 4.000 s after a backlog"});
  check_contains(words.at(2), {"The start does not matter past it."});
  check_contains(words.at(3), {"With prompts held until all DP ranks have one (serving.hold=true) placement alone "
                               "sustains 6.750 requests/s, 1.50 times its knee without"});
  check_contains(table_csv(goodput_table(study)), {",aligned\n", "\neplb,8,5,13.5,1.8,"});
  check_contains(table_csv(curve_table(study)), {",aligned,backlog_requests\n", ",00000000deadbeef,0,500\n"});
  const auto json = nlohmann::json::parse(goodput_json(study, {"0.1.0", "s", 7, "", {}}));
  CHECK(json.at("policies").at(0).at("starts").size() == 3);
  CHECK(json.at("policies").at(1).at("aligned_gain").at("mean").get<double>() == doctest::Approx(1.5));
  CHECK(json.at("searches").size() == 8);
  CHECK(json.at("searches").at(0).at("after_backlog").size() == 3);
  GoodputStudy one_rank = study;
  one_rank.aligned.clear();
  one_rank.alignment = "there is one DP rank";
  for (GoodputSearch& search : one_rank.searches) {
    search.from_backlog.clear();
  }
  CHECK(goodput_tables(one_rank).find("after a backlog that came at once") == std::string::npos);
  check_contains(goodput_tables(one_rank), {"not searched, since there is one DP rank."});
}

TEST_CASE("with an SLO, tables, CSV and JSON speak of the SLO and not of the knee") {
  const GoodputStudy study = test::sample_slo_study(1.2);
  const std::string rates = table_csv(goodput_table(study)), curve = table_csv(curve_table(study));
  check_contains(rates, {"\nbase,8,5,1,3.75,6.25,ttft<2s,1,0,1000\n", "\neplb,8,6,1.2,4.5,7.5,"});
  CHECK(rates.find("knee") == std::string::npos);
  check_contains(curve, {"\nbase,7,4,1000,4,4,800,2400,4800,4.8,100,125,30000,120,0.5,1,1,1,5000,"});
  const auto json = nlohmann::json::parse(goodput_json(study, {"0.1.0", "s", 7, "", {}}));
  CHECK(json.at("slo").at("text") == "ttft<2s, attainment>=0.95");
  CHECK(json.at("slo").at("terms").at(0).dump() == R"({"bound_s":2.0,"metric":"ttft","stat":"each"})");
  CHECK(json.at("slo").at("attainment") == 0.95);
  const auto& eplb = json.at("policies").at(1);
  CHECK(eplb.at("slo_requests_per_s").at("mean") == doctest::Approx(5.4));  // (4.8 + 6) / 2
  CHECK(eplb.at("slo_ratio").at("mean") == doctest::Approx(1.2));
  CHECK(eplb.at("slo_limit") == "ttft<2s");
  CHECK_FALSE(eplb.contains("knee"));
  const auto& search = json.at("searches").at(3);
  CHECK(search.at("seed") == 8);
  CHECK(search.at("slo").at("limit_term") == "ttft<2s");
  CHECK(search.at("slo").at("interval").at(0).get<double>() == doctest::Approx(0.75 * 6));
  CHECK(search.at("curve").at(0).at("ttft").at("p99") == 2.0);  // sample_probe(): twice the mean of 1 s
  CHECK(search.at("curve").at(0).at("slo_holds") == true);
  const std::string text = goodput_tables(study);
  check_contains(text,
                 {"the SLO up to", "placement alone", "5.400", "+20.0", "ttft<2s", "SLO: ttft<2s, attainment>=0.95"});
  CHECK(text.find("knee") == std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(display_width(line) <= 120);
  }
}

TEST_CASE("where no answer has a second token, tables, CSV and JSON leave TPOT out") {
  GoodputStudy study = test::sample_slo_study(1.2);
  for (GoodputSearch& search : study.searches) {
    search.best.tpot_s = search.curve[0].tpot_s = {};
  }
  check_contains(table_csv(curve_table(study)), {"\nbase,7,2,1000,2,2,800,1000,2000,2,,,30000,"});
  const auto json = nlohmann::json::parse(goodput_json(study, {"0.1.0", "s", 7, "", {}}));
  CHECK(json.at("policies").at(0).at("slo_tpot_p99_ms").at("mean").is_null());
  CHECK(json.at("searches").at(0).at("curve").at(0).at("tpot").at("p99").is_null());
}

TEST_CASE("the verdict: one sentence, which says which, by how much, how sure and at what cost") {
  // The seeds agree; the brackets of two searches, 0.02 wide, leave 1.96 x 0.02 x 1.2 x sqrt(2 / 12 / 2) =
  // 0.0136.
  CHECK(
      goodput_verdict(test::sample_slo_study(1.2)).text ==
      "Use eplb: it sustains 5.400 requests/s within the SLO, 20.0 % more than placement alone (95 % interval +18.6 to "
      "+21.4 %, 2 seeds), for 25.0 % of the KV room.");
  // 1.21 and 1.19: deviation 0.02 / sqrt 2, over sqrt 2 seeds 0.01, t with 1 degree of freedom 12.706: +- 0.1271,
  // with the brackets sqrt(0.1271^2 + 0.0136^2) = 0.1278.
  const RateVerdict apart = goodput_verdict(test::sample_slo_study(1.2, 0.01));
  CHECK(apart.difference);
  CHECK(apart.chosen == 1);
  check_contains(apart.text, {"20.0 % more", "+7.2 to +32.8 %"});
  const RateVerdict alike = goodput_verdict(test::sample_slo_study(1.2, 0.02));
  CHECK_FALSE(alike.difference);
  CHECK(alike.chosen == 0);
  CHECK(alike.text ==
        "Keep placement alone: it sustains 4.500 requests/s within the SLO, and nothing is shown to sustain more "
        "(eplb: no "
        "difference, 20.0 % more (95 % interval -5.4 to +45.4 %, 2 seeds)).");
  check_contains(goodput_verdict(test::sample_slo_study(0.9)).text, {"Keep placement alone", "eplb: 10.0 % less"});
  check_contains(goodput_verdict(sample_study()).text, {"Keep placement alone", "at most 5 times the idle one"});
}

TEST_CASE("the verdict: of policies that do equally well the one that takes less KV room") {
  GoodputStudy study = test::sample_slo_study(1.2);
  study.policies.push_back("craft");
  for (int s = 0; s < 2; ++s) {
    GoodputSearch craft = searches_of(study, 1)[static_cast<std::size_t>(s)];
    craft.policy = "craft";
    craft.kv_lost_share = 0.03;
    craft.slo.rate *= s == 0 ? 0.99 : 1.0;
    study.searches.push_back(craft);
  }
  // eplb / craft: 1.0101 and 1: not told apart.
  check_contains(goodput_verdict(study).text,
                 {"Use craft", "for 3.0 % of the KV room", "no difference to eplb (25.0 %"});
}

TEST_CASE("the verdict: what no deployment can have is named, and never recommended") {
  GoodputStudy study = test::sample_slo_study(1.2);  // base 4 and 5 requests/s, eplb 4.8 and 6
  study.out_of_reach = {"eplb"};
  const RateVerdict verdict = goodput_verdict(study);
  CHECK(verdict.chosen == 0);
  CHECK(verdict.text ==
        "It sustains 4.500 requests/s within the SLO. Ceilings that no deployment can have: eplb 5.400 requests/s.");
  study.out_of_reach.emplace_back("base");
  CHECK(goodput_verdict(study).text ==
        "Ceilings that no deployment can have: base 4.500 requests/s, eplb 5.400 requests/s.");
}

TEST_CASE("what a search costs is said where a verdict, and not the number in the system, takes many requests") {
  GoodputOptions options;  // 20 requests for each in the system
  options.slo = parse_slo("ttft.p99<60ms");
  LoadPoint probe;
  probe.requests = 8000;
  probe.outstanding = 199;  // 2 x 20 x 199 is 7960
  check_contains(cost_note(probe, "base", 9, options),
                 {"ttft.p99<60ms",
                  "base needs 8,000 requests or more at each rate (50,000 at most) to settle it to 2 %", "9 searches"});
  probe.outstanding = 201;
  CHECK(cost_note(probe, "base", 9, options).empty());
  probe.outstanding = 1;
  probe.requests = 4000;
  CHECK(cost_note(probe, "base", 9, options).empty());
  probe.requests = 8000;
  options.slo = {};
  CHECK(cost_note(probe, "base", 9, options).empty());
}

TEST_CASE("the verdict where the SLO is never met") {
  GoodputStudy study = test::sample_slo_study(1.2);
  const auto never = [](GoodputSearch& s) { s.slo = {false, 0, 0, 0, "ttft<2s"}; };
  never(study.searches[0]);
  never(study.searches[1]);
  check_contains(goodput_verdict(study).text,
                 {"Use eplb: it sustains 5.400 requests/s", "placement alone does not meet it", "ttft<2s fails"});
  check_contains(goodput_conclusions(study).at(0),
                 {"placement alone does not meet the SLO, not even with one request"});
  check_contains(goodput_tables(study), {"never"});
  never(study.searches[2]);
  never(study.searches[3]);
  CHECK(goodput_verdict(study).text ==
        "No policy meets the SLO, not even with one request in the system: ttft<2s fails.");
}

}  // namespace epsim
