#include "sim/report/rate_verdict.h"

#include <doctest/doctest.h>

#include <limits>
#include <variant>

#include "sim/report/winner_map.h"
#include "tests/support/errors.h"

namespace epsim {

using test::check_contains;

namespace {

const RateQuestion kQuestion{"within the SLO", 0.02, "--vary seed=1,2,3"};
constexpr double kFailed = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("what brackets hide is no difference, however well the seeds agree") {
  // 1 % on each of 3 seeds; brackets of 0.05 leave 1.96 x 0.05 x 1.01 x sqrt(2 / 12 / 3) = 0.0233.
  const RateQuestion coarse{"within the SLO", 0.05, "--seeds 3"};
  const std::vector<RateChoice> choices{
      {"off", {90, 80, 100}}, {"costly", {101, 90.9, 111.1}, 0.2}, {"cheap", {100, 90, 110}, 0.02}};
  CHECK(verdict_against_first(choices, coarse).chosen == 2);
  RateQuestion fine = coarse;
  fine.tolerance = 0.01;  // 0.0046
  CHECK(verdict_against_first(choices, fine).chosen == 1);
}

TEST_CASE("of choices that are told apart neither by rate nor by KV room, the first given is advised") {
  const std::vector<RateChoice> choices{{"off", {90}}, {"simple", {110}, 0.1}, {"complex", {111}, 0.1}};  // 0.9 % < 2 %
  CHECK(verdict_against_first(choices, kQuestion).chosen == 1);
}

TEST_CASE("rates of a single seed differ when they are more than twice the tolerance apart") {
  const auto chosen = [](double other) {
    return verdict_against_first(std::vector<RateChoice>{{"off", {100}}, {"other", {other}}}, {"", 0.02, ""}).chosen;
  };
  CHECK(chosen(103.9) == 0);
  CHECK(chosen(104.1) == 1);
}

TEST_CASE("a policy that ties with the chosen one is named, whether or not it is shown to gain over the first") {
  // 104.1 gains more than 4 %, twice the tolerance, 103.9 does not; the two are 0.2 % apart.
  const RateQuestion one_seed{"", 0.02, ""};
  check_contains(
      verdict_against_first(std::vector<RateChoice>{{"off", {100}}, {"on", {104.1}}, {"too", {103.9}}}, one_seed).text,
      {"Use on", "no difference to too (0.0 % of the KV room)"});
  check_contains(
      verdict_against_first(std::vector<RateChoice>{{"off", {0}}, {"on", {50}}, {"too", {50}}}, one_seed).text,
      {"Use on", "no difference to too (0.0 % of the KV room); off does not meet it"});
}

TEST_CASE("a map's winner gains more than twice the tolerance, whatever takes less KV room") {
  // Under one seed 4.6 % is within twice the tolerance of the fastest, 7.7 %, and below twice the tolerance over the first.
  const WinnerMap map{{"loads"},
                      {{{"moved"}, {{"off", {100}}, {"fast", {107.7}, 0.1}, {"cheap", {104.6}, 0.0}}},
                       {{"even"}, {{"off", {100}}, {"fast", {105.9}, 0.1}, {"cheap", {104.6}, 0.0}}}},
                      {"within the SLO", 0.03}};
  const ResultTable winners = winner_table(map);
  CHECK(std::get<std::string>(winners.rows[0][1]) == "fast");
  CHECK(std::get<std::string>(winners.rows[1][1]) == "off");
  CHECK(std::get<std::string>(winners.rows[0][5]) == "off");  // what the gain is over
}

TEST_CASE("a map's first policy gains nothing over itself, whatever the searches' brackets") {
  const ResultTable winners =
      winner_table({{"loads"}, {{{"even"}, {{"off", {100, 90}}, {"on", {100, 90}}}}}, {"within the SLO", 0.03}});
  CHECK(std::get<std::string>(winners.rows[0][1]) == "off");
  for (const std::size_t gain : {2, 3, 4}) {
    CHECK(std::get<double>(winners.rows[0][gain]) == 0);
  }
}

TEST_CASE("a map names every policy, those that do not fit the first cell too") {
  const WinnerMap map{
      {"loads"},
      {{{"moved"}, {{"off", {100}}, {"slim", {120}}}}, {{"even"}, {{"off", {100}}, {"slim", {101}}, {"wide", {150}}}}},
      {"within the SLO", 0.03}};
  const std::string svg = winner_svg(map, winner_table(map));
  CHECK(svg.find(">wide</text>") != std::string::npos);  // in the legend
  CHECK(svg.find(">wide +50 %</text>") != std::string::npos);
}

TEST_CASE("a map says with which policies its winner was not compared") {
  const WinnerMap map{{"nodes"},
                      {{{"1"}, {{"off", {100}}, {"on", {150}}}}, {{"2"}, {{"off", {100}}}, {"on"}}},
                      {"within the SLO", 0.03}};
  const ResultTable winners = winner_table(map);
  REQUIRE(winners.columns.back().name == "not_compared");
  CHECK(text_of(winners.rows[0].back()).empty());
  CHECK(text_of(winners.rows[1].back()) == "on");
  const std::string svg = winner_svg(map, winners);
  CHECK(svg.find(">on +50 %</text>") != std::string::npos);  // where all ran
  CHECK(svg.find(">off *</text>") != std::string::npos);
  CHECK(svg.find(">* not all policies ran</text>") != std::string::npos);
}

TEST_CASE("a map has a row where every policy failed: no winner, and all of them as not compared") {
  const WinnerMap map{
      {"nodes"}, {{{"3"}, {}, {"off", "on"}}, {{"2"}, {{"off", {100}}, {"on", {150}}}}}, {"within the SLO", 0.03}};
  const ResultTable winners = winner_table(map);
  REQUIRE(winners.rows.size() == 2);
  CHECK(table_csv(winners).find("\n3,,,,,,\"off, on\"\n") != std::string::npos);
  CHECK(std::get<std::string>(winners.rows[1][1]) == "on");
  CHECK(winner_svg(map, winners).find(">none *</text>") != std::string::npos);
}

TEST_CASE("rates against the next: the highest under every seed, by how much and how sure") {
  // 6 / 4 and 7.5 / 5: 1.5 both; brackets of 0.02 leave 1.96 x 0.02 x 1.5 x sqrt(2 / 12 / 2) = 0.0170.
  const std::vector<RateChoice> choices{{"a", {3, 4}}, {"b", {6, 7.5}}, {"c", {4, 5}}};
  const RateVerdict verdict = verdict_against_next(choices, kQuestion);
  CHECK(verdict.chosen == 1);
  CHECK(verdict.difference);
  CHECK(verdict.text ==
        "Highest rate within the SLO: 6.750 requests/s with b; 50.0 % more than the next, c (95 % interval +48.3 to "
        "+51.7 %, 2 seeds).");
  // 1.5 and 1.1: deviation 0.4 / sqrt 2, over sqrt 2 seeds 0.2, t with 1 degree of freedom 12.706: far beyond 0.3.
  const std::vector<RateChoice> unsure{{"b", {6, 5.5}}, {"c", {4, 5}}};
  CHECK_FALSE(verdict_against_next(unsure, kQuestion).difference);
  check_contains(verdict_against_next(unsure, kQuestion).text, {"with b; no sure difference to the next, c (95 %"});
}

TEST_CASE("rates against the next: one seed tells a difference beyond the search's tolerance") {
  const auto text_of = [](double rate) {
    const std::vector<RateChoice> choices{{"a", {rate}}, {"b", {4}}};
    return verdict_against_next(choices, kQuestion).text;
  };
  check_contains(text_of(4.2), {"with a; 5.0 % more than the next, b (one seed: --vary seed=1,2,3 shows"});
  check_contains(text_of(4.04), {"with a; no sure difference to the next, b (one seed"});
}

TEST_CASE("rates against the next: what failed is not compared, and what fails under a seed is not recommended") {
  const auto text_of = [](const std::vector<RateChoice>& choices) {
    return verdict_against_next(choices, kQuestion).text;
  };
  CHECK(text_of({{"a", {3, 4}}, {"b", {kFailed, 9}}}).empty());
  CHECK(text_of({{"a", {3, 4}}, {"b", {0, 9}}}) ==
        "Only a sustains a rate within the SLO under every seed: 3.500 requests/s.");
  CHECK(text_of({{"a", {0, 4}}, {"b", {0, 9}}}) == "No combination sustains any rate within the SLO under every seed.");
}

}  // namespace epsim
