// `epsim validate --served`: rows become scenarios as the layout says, errors are what the arithmetic gives, and a load
// generator's own file can stand in for the table.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "sim/app/served_guard.h"
#include "sim/app/served_summary.h"
#include "sim/core/error.h"
#include "tests/app/process.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

using app::ServedPoint;
using app::ServedRun;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void write_served_layout(const TempDir& dir, const std::string& rules) {
  std::ofstream(dir / "layout.yaml") << R"(
flags: [gpu, tokens, n, workers]
derived: {each: "{n/workers}"}
groups: {GPU: gpu}
in_flight: n
measured: {ttft_ms: ttft, tpot_s: [none, tpot]}
date: date
rules:
)" << rules;
}

std::vector<ServedPoint> points_of(const TempDir& dir, const std::string& rows) {
  std::ofstream(dir / "table.csv") << "gpu,tokens,n,workers,ttft,tpot,none,date\n" << rows;
  return app::read_served_points(dir / "table.csv", app::read_served_layout(dir / "layout.yaml"));
}

TEST_CASE("rules that apply set keys in their order, with the row's texts and numbers in place") {
  const TempDir dir;
  write_served_layout(dir, R"(
  - {set: {a.b: "{n*10}", c: "{tokens}", d: "{each}"}}
  - {when: {gpu: [x, y]}, set: {e: 1}, note: "{gpu} by y"}
  - {when: {tokens: "*", workers: ""}, set: {f: 1}}
  - {when: {tokens: [5*, 6*]}, set: {g: 1}}
  - {when: {tokens: 4*}, set: {h: 1}}
  - {when: {gpu: z}, unexpressed: "no {gpu}"}
)");
  const auto points = points_of(dir, "x,64,9,2,250,0.02,,2026-01-31\nz,64,4,,10,,,\n");
  REQUIRE(points.size() == 2);
  CHECK(points[0].assignments == std::vector<std::string>{"a.b=90", "c=64", "d=5", "e=1", "g=1"});  // 9 / 2, rounded
  CHECK(points[0].notes == std::vector<std::string>{"x by y"});
  CHECK(points[0].reasons.empty());
  CHECK(points[0].groups == std::vector<std::string>{"x"});
  CHECK(points[0].in_flight == 9);
  CHECK(points[0].measured[0] == doctest::Approx(0.25));  // 250 ms
  CHECK(points[0].measured[1] == doctest::Approx(0.02));  // seconds; the first column has none
  CHECK(std::isnan(points[0].measured[2]));
  // A column that is empty where a rule needs it is a reason, too.
  CHECK(points[1].reasons == std::vector<std::string>{"the table has no each", "no z"});
  CHECK(std::isnan(points[1].day));
}

TEST_CASE("a rule may hold for a time: from a day on, and before another") {
  const TempDir dir;
  write_served_layout(dir, R"(
  - {since: 2026-01-21, before: 2026-02-03, set: {a: 1}}
  - {when: {gpu: x}, before: 2026-01-21, set: {b: 1}}
)");
  const auto points =
      points_of(dir, "x,1,1,1,1,1,,2026-01-20\nx,1,1,1,1,1,,2026-01-21\nx,1,1,1,1,1,,2026-02-03\nx,1,1,1,1,1,,\n");
  REQUIRE(points.size() == 4);
  CHECK(points[0].assignments == std::vector<std::string>{"b=1"});
  CHECK(points[1].assignments == std::vector<std::string>{"a=1"});
  CHECK(points[2].assignments.empty());
  CHECK(points[3].assignments.empty());  // no date: of no time
  write_served_layout(dir, "  - {since: May, set: {a: 1}}\n");
  check_contains(error_of<InputError>([&] { points_of(dir, ""); }).what(), {"since", "May", "year-month-day"});
}

TEST_CASE("columns come from another table: from its first row that fits, where an empty cell fits any text") {
  const TempDir dir;
  write_served_layout(
      dir, "  - {when: {recipe: \"*\"}, set: {a.b: \"{chunk}\"}}\n  - {when: {recipe: \"\"}, unexpressed: none}\n");
  std::ofstream(dir / "layout.yaml", std::ios::app) << "lookup: recipes.csv\n";
  std::ofstream(dir / "recipes.csv") << "gpu,tokens,each,recipe,chunk\nx,64,,one,8\nx,,5,two,9\nx,,,three,10\n";
  const auto points = points_of(dir, "x,64,10,2,1,1,,\nx,32,10,2,1,1,,\nx,32,12,2,1,1,,\ny,64,10,2,1,1,,\n");
  REQUIRE(points.size() == 4);
  CHECK(points[0].assignments == std::vector<std::string>{"a.b=8"});
  CHECK(points[1].assignments == std::vector<std::string>{"a.b=9"});   // 10 / 2 = 5 of `each`
  CHECK(points[2].assignments == std::vector<std::string>{"a.b=10"});  // 12 / 2 = 6
  CHECK(points[3].reasons == std::vector<std::string>{"none"});
  std::ofstream(dir / "recipes.csv") << "gpu,tokens\nx,64\n";
  check_contains(error_of<InputError>([&] { points_of(dir, ""); }).what(),
                 {"layout.yaml", "lookup", "recipes.csv", "others"});
}

TEST_CASE("measured figures are medians, or means where the layout says so") {
  TempDir dir;
  write_served_layout(dir, "  - {set: {a: 1}}\n");
  CHECK(!app::read_served_layout(dir / "layout.yaml").means);
  std::ofstream(dir / "layout.yaml", std::ios::app) << "statistic: mean\n";
  CHECK(app::read_served_layout(dir / "layout.yaml").means);
  write_served_layout(dir, "  - {set: {a: 1}}\n");
  std::ofstream(dir / "layout.yaml", std::ios::app) << "statistic: p90\n";
  check_contains(error_of<InputError>([&] { points_of(dir, ""); }).what(),
                 {"layout.yaml", "statistic", "mean, median"});
}

TEST_CASE("a layout names its own columns only, and a table has them") {
  const TempDir dir;
  write_served_layout(dir, "  - {when: {gpus: x}, set: {a: 1}}\n");
  check_contains(error_of<InputError>([&] { points_of(dir, ""); }).what(), {"layout.yaml", "gpus", "gpu, "});
  write_served_layout(dir, "  - {set: {a: \"{tokenz}\"}}\n");
  check_contains(error_of<InputError>([&] { points_of(dir, ""); }).what(), {"layout.yaml", "tokenz", "tokens"});
  write_served_layout(dir, "  - {set: {a: 1}, unexpressed: why}\n");
  check_contains(error_of<InputError>([&] { points_of(dir, ""); }).what(), {"unexpressed", "or sets keys"});
  write_served_layout(dir, "  - {set: {a: 1}}\n");
  std::ofstream(dir / "other.csv") << "gpu,tokens\nx,1\n";
  check_contains(error_of<InputError>([&] {
                   app::read_served_points(dir / "other.csv", app::read_served_layout(dir / "layout.yaml"));
                 }).what(),
                 {"other.csv", "lacks", "workers", "--layout"});
}

TEST_CASE("errors: median, mean and 90th percentile of their size, bias with its sign") {
  const app::ServedErrors e = app::served_errors({-0.1, 0.3, 0.2, -0.4});
  CHECK(e.points == 4);
  CHECK(e.median == doctest::Approx(0.25));
  CHECK(e.mean == doctest::Approx(0.25));
  CHECK(e.p90 == doctest::Approx(0.4));  // the 4th of 4: 0.9 x 4 = 3.6
  CHECK(e.bias == doctest::Approx(0.0));
}

struct Served {
  app::ServedLayout layout;
  std::vector<ServedPoint> points;
  void add(const std::string& gpu, double n, double day, double measured_tpot, std::optional<ServedRun> run) {
    ServedPoint p;
    p.row = static_cast<int>(points.size()) + 1;
    p.flags = {gpu, std::to_string(n)};
    p.groups = {gpu};
    p.in_flight = n;
    p.day = day;
    p.measured = {kNone, measured_tpot, kNone};
    p.assignments = {"n=" + std::to_string(n)};
    p.run = std::move(run);
    points.push_back(p);
  }
};

ServedRun run_of(double experts, double attention) {
  ServedRun out;
  out.predicted = {1, experts + attention, 2};
  out.tpot_terms = {{"experts", experts}, {"attention", attention}};
  return out;
}

TEST_CASE("a table of points has each column once, requests in flight too where the layout's flags have them") {
  Served s;
  s.layout.flags = {"gpu", "in_flight"};
  s.add("x", 4, kNone, 6e-3, run_of(2e-3, 5e-3));
  const ResultTable table = app::served_table(s.layout, s.points);
  std::set<std::string> names;
  for (const ResultColumn& column : table.columns) {
    CHECK_MESSAGE(names.insert(column.name).second, column.name);
  }
  REQUIRE(table.rows.size() == 1);
  REQUIRE(table.rows[0].size() == table.columns.size());
  REQUIRE(table.columns[3].name == "in_flight");  // after row, group and gpu
  CHECK(number_of(table.rows[0][3]) == 4);
}

TEST_CASE("the hint finds the term that was made wrong: experts priced at twice what was measured") {
  Served s;
  s.layout.groups = {{"GPU", "gpu"}};
  s.layout.flags = {"gpu", "n"};
  s.add("x", 4, kNone, 1e-3 + 5e-3, run_of(2e-3, 5e-3));
  s.add("x", 16, kNone, 4e-3 + 6e-3, run_of(8e-3, 6e-3));
  CHECK(app::summarise_served(s.layout, s.points).hints.empty());  // two scenarios: any term fits
  s.add("x", 64, kNone, 9e-3 + 7e-3, run_of(18e-3, 7e-3));
  const app::ServedSummary out = app::summarise_served(s.layout, s.points);
  REQUIRE(out.hints.size() == 1);
  CHECK(out.hints[0].term == "experts");
  CHECK(out.hints[0].factor == doctest::Approx(0.5));
  CHECK(out.hints[0].mean_then == doctest::Approx(0).epsilon(1e-9));
  // 7 for 6, 14 for 10, 25 for 16.
  CHECK(out.hints[0].mean_now == doctest::Approx((1.0 / 6 + 0.4 + 9.0 / 16) / 3));
  REQUIRE(out.groups.size() == 3);  // 1-8, 9-32 and 33-128 in flight
  CHECK(out.groups[2].labels == std::vector<std::string>{"x", "33-128"});
  CHECK(out.groups[2].errors[1].bias == doctest::Approx(9.0 / 16));
}

TEST_CASE(
    "prefill apart is summed by itself, and again without the points whose prefill ranks have more than a prompt "
    "each") {
  Served s;
  s.layout.groups = {{"GPU", "gpu"}};
  s.layout.flags = {"gpu", "n"};
  s.add("x", 4, kNone, 5e-3, run_of(1e-3, 5e-3));  // +20 %
  const auto add_apart = [&](double n, double ttft, double e2e, double predicted_ttft, bool drafts) {
    ServedRun run = run_of(1e-3, 4e-3);
    run.predicted[0] = predicted_ttft;
    run.prefill_ranks = 4;
    run.drafts = drafts;
    s.add("x", n, kNone, 5e-3, run);
    s.points.back().measured = {ttft, 5e-3, e2e};
  };
  add_apart(40, 1.0, 10.0, 1.1, false);  // 40 x 1 / 10 / 4: one prompt a rank
  add_apart(44, 1.0, 10.0, 3.0, false);  // 1.1
  add_apart(40, 1.0, 10.0, 1.5, true);
  CHECK(s.points[1].prompts_per_rank() == doctest::Approx(1.0));
  CHECK(s.points[2].prompts_per_rank() == doctest::Approx(1.1));
  const app::ServedSummary out = app::summarise_served(s.layout, s.points);
  REQUIRE(out.kinds.size() == 5);
  const auto is = [&](std::size_t k, const std::string& label, int points) {
    CHECK(out.kinds[k].labels == std::vector<std::string>{label});
    CHECK(out.kinds[k].errors[1].points == points);
  };
  is(0, "prefill and decode together", 1);
  is(1, "prefill and decode apart", 2);
  is(2, "apart, prefill not saturated", 1);
  is(3, "prefill and decode apart, drafts", 1);
  is(4, "apart, prefill not saturated, drafts", 1);
  CHECK(out.kinds[0].errors[1].mean == doctest::Approx(0.2));
  CHECK(out.kinds[1].errors[0].mean == doctest::Approx((0.1 + 2.0) / 2));
  CHECK(out.kinds[2].errors[0].mean == doctest::Approx(0.1));
  const std::string text = app::served_text(out, app::served_table(s.layout, s.points));
  check_contains(text, {"apart, prefill not saturated", "at most 1 prompt at a prefill rank"});
  s.points.resize(1);
  ServedRun drafted = run_of(1e-3, 4e-3);
  drafted.drafts = true;
  s.add("x", 8, kNone, 5e-3, drafted);
  const app::ServedSummary drafts = app::summarise_served(s.layout, s.points);
  CHECK(drafts.kinds.size() == 2);
  CHECK(app::served_text(drafts, app::served_table(s.layout, s.points)).find("not saturated") == std::string::npos);
  s.points.resize(1);
  const app::ServedSummary together = app::summarise_served(s.layout, s.points);
  CHECK(together.kinds.empty());  // all points: the line "all" has them
  CHECK(app::served_text(together, app::served_table(s.layout, s.points)).find("not saturated") == std::string::npos);
}

TEST_CASE("a row says what to add to `epsim run` for its own run") {
  Served s;
  s.layout.flags = {"gpu", "n"};
  s.add("x", 4, kNone, 6e-3, run_of(2e-3, 5e-3));
  s.points[0].assignments = {"a.b=1", "c=[1, 2]"};
  s.add("x", 8, kNone, 6e-3, std::nullopt);
  const ResultTable table = app::served_table(s.layout, s.points);
  REQUIRE(table.columns.back().name == "settings");
  CHECK(std::get<std::string>(table.rows[0].back()) == "--set 'a.b=1' --set 'c=[1, 2]'");
  CHECK(std::get<std::string>(table.rows[1].back()).empty());
}

TEST_CASE("a constant that every token lacks is told as such") {
  Served s;
  s.layout.groups = {{"GPU", "gpu"}};
  s.add("x", 4, kNone, 9e-3, run_of(2e-3, 5e-3));
  s.add("x", 16, kNone, 16e-3, run_of(8e-3, 6e-3));
  s.add("x", 64, kNone, 27e-3, run_of(18e-3, 7e-3));
  const app::ServedSummary out = app::summarise_served(s.layout, s.points);
  REQUIRE(out.hints.size() == 1);
  CHECK(out.hints[0].term == "");
  CHECK(out.hints[0].added_s == doctest::Approx(2e-3));
}

TEST_CASE("the noise floor is that of repeats within three days; reasons are counted alone and together") {
  Served s;
  s.add("x", 4, 0, 1.0, std::nullopt);
  s.add("x", 4, 9, 3.0, std::nullopt);   // too late for a repeat
  s.add("x", 4, 2, 1.1, std::nullopt);   // 10 % over that of day 0
  s.add("y", 4, 1, 50.0, std::nullopt);  // of another configuration
  s.points[0].reasons = {"a"};
  s.points[1].reasons = {"a", "b"};
  s.points[2].reasons = {"b", "b"};
  ServedRun refused;
  refused.error = "c";
  s.points[3].run = refused;
  const app::ServedSummary out = app::summarise_served(s.layout, s.points);
  CHECK(out.noise[1].pairs == 1);
  CHECK(out.noise[1].median == doctest::Approx(0.1));
  // 1.1 for all of x leaves 0.1, 1 - 1.1 / 3 and 0; 1.0 would leave 0, 2 / 3 and 0.1 / 1.1. Of y nothing, over four points.
  CHECK(out.noise[1].least_mean == doctest::Approx((0.1 + 1.9 / 3) / 4));
  CHECK(out.expressed == 0);
  REQUIRE(out.unexpressed.size() == 3);
  CHECK((out.unexpressed[0].text == "a" && out.unexpressed[0].points == 2 && out.unexpressed[0].alone == 1));
  CHECK((out.unexpressed[1].text == "b" && out.unexpressed[1].points == 2 && out.unexpressed[1].alone == 1));
  CHECK((out.unexpressed[2].text == "c" && out.unexpressed[2].points == 1));
}

TEST_CASE("a group is worse when its mean error grew by 2 points and by a tenth, over the points of both versions") {
  Served s;
  s.layout.groups = {{"GPU", "gpu"}};
  s.add("x", 4, kNone, 1.0, run_of(0.60, 0.50));  // +10 %
  s.add("x", 8, kNone, 1.0, run_of(0.40, 0.46));  // -14 %: the mean is 12 %
  s.add("y", 4, kNone, 1.0, run_of(0.60, 0.62));  // +22 %
  s.add("z", 4, kNone, 1.0, run_of(0.50, 0.51));  // not among the earlier ones
  s.add("y", 4, kNone, 1.0, std::nullopt);        // lost
  const TempDir dir;
  const auto held_against = [&](const std::string& rows) {
    std::ofstream(dir / "errors.csv") << "row,group,error_ttft_share,error_tpot_share,error_e2e_share\n" << rows;
    return app::hold_served(app::read_served_before(dir / "errors.csv"), s.points);
  };
  // x: 9.5 % before (12 is 2.5 points and 26 % more). y: 20.5 % before (22 is 1.5 points more).
  const app::ServedHeld held = held_against("1,x,,0.09,\n2,x,,-0.1,\n3,y,,0.205,\n5,y,,0.1,\n7,y,,0.1,\n");
  CHECK(held.points == 3);
  CHECK(held.lost == 1);
  REQUIRE(held.worse.size() == 1);
  CHECK(held.worse[0].labels == std::vector<std::string>{"x", "1-8"});
  CHECK(held.worse[0].before == doctest::Approx(0.095));
  CHECK(held.worse[0].now == doctest::Approx(0.12));
  // 2.5 points more than 30 % are less than a tenth.
  s.points[2].run->predicted[1] = 1.325;
  CHECK(held_against("3,y,,-0.3,\n").worse.empty());
  s.points[2].run->predicted[1] = 1.335;
  CHECK(held_against("3,y,,-0.3,\n").worse.size() == 1);
  check_contains(error_of<InputError>([&] { held_against("1,y,,0.09,\n"); }).what(), {"errors.csv", "row 1", "y", "x"});
}

TEST_CASE("a quick look takes the scenario with the fewest requests in flight of each group") {
  Served s;
  for (const double n : {8.0, 4.0, 4.0, 64.0}) {
    s.add("x", n, kNone, 1.0, std::nullopt);
  }
  s.add("y", 2, kNone, 1.0, std::nullopt);
  s.points.back().reasons = {"why"};
  const std::vector<ServedPoint> quick = app::quick_points(s.points);
  REQUIRE(quick.size() == 3);  // 1-8 twice, as it was measured twice, and 33-128
  CHECK((quick[0].row == 2 && quick[1].row == 3 && quick[2].row == 4));
}

constexpr const char* kSmallRules = R"(
  - {set: {requests: {kind: closed_loop, concurrency: "{n}", count: "{n*3}", input_tokens: "{tokens}", output_tokens: 8}}}
  - {when: {gpu: nowhere}, unexpressed: "{gpu} is not a GPU"}
)";

TEST_CASE("a table is run, kept, and told: equal rows once, the same figures as epsim run, a page") {
  const TempDir dir;
  write_served_layout(dir, kSmallRules);
  std::ofstream(dir / "table.csv") << "gpu,tokens,n,workers,ttft,tpot,none,date\n"
                                      "a100,300,4,1,20,0.01,,\na100,300,4,1,21,0.01,,\na100,600,2,1,20,0.01,,\n"
                                      "nowhere,600,2,1,20,0.01,,\n";
  const std::string command = "validate " + small_scenario() + " --served table.csv --layout layout.yaml -o out";
  const Outcome first = run_epsim(dir, command);
  CAPTURE(first.err);
  CHECK(first.exit_code == 0);
  check_contains(first.out,
                 {"expressed: 3 of 4 measured points (75.0 %), as 2 different scenarios", "nowhere is not a GPU",
                  "a100", "1-8", "results: out (points.csv, errors.csv, groups.csv, "});
  check_contains(first.err, {"2 of 2 scenarios"});
  const Outcome again = run_epsim(dir, command + " --json");
  check_contains(again.err, {"2 scenarios already finished"});
  const auto json = nlohmann::json::parse(again.out);
  const Outcome run =
      run_epsim(dir, "run " + small_scenario() +
                         " --set 'requests={kind: closed_loop, concurrency: 4, count: 12, input_tokens: "
                         "300, output_tokens: 8}' --json");
  const double ttft_ms = nlohmann::json::parse(run.out).at("latency").at("ttft_p50_ms");
  CHECK(json.at("rows").at(0).at("predicted_ttft_ms").get<double>() == doctest::Approx(ttft_ms));
  CHECK(json.at("rows").at(0).at("error_ttft_share").get<double>() == doctest::Approx(ttft_ms / 20 - 1));
  CHECK(json.at("rows").at(3).at("predicted_ttft_ms").is_null());
  CHECK(json.at("rows").at(3).at("unexpressed") == "nowhere is not a GPU");
  check_contains(slurp(dir / "out/report.html"), {"Predicted and measured", "served.json"});
  check_contains(slurp(dir / "out/points.csv"), {"predicted_tpot_ms", "tpot_experts_ms"});
  // What --set gives and the scenario of no point takes ends before anything runs.
  for (const auto& [set, says] : {std::pair("cluster.nodess=3", "`cluster.nodess`: unknown key 'nodess'"),
                                  std::pair("cluster.nodes=x", "`cluster.nodes`"), std::pair("nodes", "key=value")}) {
    const Outcome refused = run_epsim(dir, command + "-refused --set " + set);
    CHECK(refused.exit_code == 2);
    check_contains(refused.err, {"--set", says});
    CHECK_FALSE(std::filesystem::exists(dir / "out-refused"));
  }
  // The same figures are no worse than themselves; errors that were smaller once are.
  const Outcome same = run_epsim(dir, command + " --against out/errors.csv");
  CHECK(same.exit_code == 0);
  check_contains(same.out, {"against errors.csv, points in both: 3; no group's mean error has grown"});
  std::ofstream(dir / "small.csv") << "row,group,error_ttft_share,error_tpot_share,error_e2e_share\n1,a100,0,0,\n";
  const Outcome worse = run_epsim(dir, command + " --against small.csv");
  CHECK(worse.exit_code == 1);
  check_contains(worse.out, {"against small.csv, points in both: 1; worse by 2 points and by 10 %", "a100 1-8"});
  // Another table is not taken for this one.
  std::ofstream(dir / "table.csv", std::ios::app) << "a100,900,2,1,20,0.01,,\n";
  const Outcome other = run_epsim(dir, command);
  CHECK(other.exit_code == 2);
  check_contains(other.err, {"--overwrite"});
}

TEST_CASE("what the engines' load generators wrote is read as it is") {
  const TempDir dir;
  // SGLang: JSON lines, lengths as they were asked for; vLLM: one object, lengths as they were.
  std::ofstream(dir / "sglang.jsonl")
      << R"({"backend": "sglang", "request_rate": Infinity, "max_concurrency": 4, "completed": 12,
 "random_input_len": 300, "random_output_len": 8, "random_range_ratio": 1.0, "median_ttft_ms": 20.0,
 "median_tpot_ms": 10.0, "median_e2e_latency_ms": 90.0, "input_lens": [], "output_lens": []})";
  std::ofstream(dir / "vllm.json")
      << R"({"backend": "vllm", "request_rate": "inf", "max_concurrency": 4, "completed": 12,
 "total_input_tokens": 3600, "total_output_tokens": 96, "median_ttft_ms": 20.0, "median_tpot_ms": 10.0, "median_e2el_ms": 90.0})";
  std::ofstream(dir / "rate.json")
      << R"({"backend": "vllm", "request_rate": 5.0, "completed": 3, "total_input_tokens": 900, "total_output_tokens": 24,
 "median_ttft_ms": 20.0, "median_tpot_ms": 10.0, "median_e2el_ms": 90.0}
{"backend": "vllm", "request_rate": 5.0, "max_concurrency": null, "completed": 3,
 "input_lens": [300, 300, 300, 300], "output_lens": [8, 8, 0, 8], "median_ttft_ms": 20.0, "median_tpot_ms": 10.0, "median_e2el_ms": 90.0})";
  const std::string layout = " --layout '" + (source_dir() / "experiments/served/bench-serving.yaml").string() + "'";
  double predicted[2];
  for (int i = 0; i < 2; ++i) {
    const std::string file = i == 0 ? "sglang.jsonl" : "vllm.json";
    const Outcome out =
        run_epsim(dir, "validate " + small_scenario() + " --served " + file + layout + " --json -o " + file + "-out");
    CAPTURE(out.err);
    REQUIRE(out.exit_code == 0);
    const auto row = nlohmann::json::parse(out.out).at("rows").at(0);
    predicted[i] = row.at("predicted_e2e_ms");
    CHECK(row.at("measured_e2e_ms") == 90.0);
  }
  CHECK(predicted[0] == predicted[1]);  // 300 tokens in, 8 out, 4 in flight, both
  // Both write a limit beside a rate; SGLang writes random_input_len for every dataset, vLLM a burstiness.
  const auto predicted_by = [&](const std::string& fields) {
    std::ofstream(dir / "one.json") << "{\"backend\": \"x\", \"completed\": 12, \"total_input_tokens\": 3600, "
                                       "\"total_output_tokens\": 96, \"median_e2el_ms\": 90.0, "
                                    << fields << "}";
    const Outcome out =
        run_epsim(dir, "validate " + small_scenario() + " --served one.json --json --overwrite -q -o one-out" + layout);
    CAPTURE(out.err);
    REQUIRE(out.exit_code == 0);
    return nlohmann::json::parse(out.out).at("rows").at(0).at("predicted_e2e_ms").get<double>();
  };
  const double poisson = predicted_by(R"("request_rate": 40.0, "burstiness": 1.0)");
  CHECK(predicted_by(R"("request_rate": 40.0, "max_concurrency": 1000)") == poisson);
  CHECK(predicted_by(R"("request_rate": 40.0, "burstiness": 0.1)") != poisson);
  CHECK(predicted_by(R"("request_rate": 40.0, "dataset_name": "sharegpt", "random_input_len": 1024,
                        "random_output_len": 1024, "random_range_ratio": 0.0)") == poisson);
  const Outcome rate = run_epsim(dir, "validate " + small_scenario() + " --served rate.json -o rate-out" + layout);
  CAPTURE(rate.err);
  CHECK(rate.exit_code == 0);
  // The second has its lengths, of which one request failed; the first only their means.
  check_contains(rate.out, {"expressed: 2 of 2", "measured", "predicted", "those of the predicted TPOT: "});
  const std::string seeded =
      "validate " + small_scenario() + " --served rate.json --json -q --seed 7 -o seeded-out" + layout;
  CHECK(nlohmann::json::parse(run_epsim(dir, seeded).out)["rows"] !=
        nlohmann::json::parse(slurp(dir / "rate-out/served.json"))["rows"]);
  const Outcome nothing = run_epsim(dir, "validate --served vllm.json" + layout);
  CHECK(nothing.exit_code == 2);
  check_contains(nothing.err, {"name the scenario of the deployment"});
}

TEST_CASE("one point that is far off does not hide the term that is wrong at all others") {
  Served s;
  s.layout.groups = {{"GPU", "gpu"}};
  for (const double ms : {1, 2, 4, 8, 16}) {
    s.add("x", ms, kNone, ms * 1e-3, run_of(0.8e-3 * ms, 0));  // a fifth too short
  }
  s.add("x", 32, kNone, 1e-3, run_of(3e-3, 0));
  const app::ServedSummary out = app::summarise_served(s.layout, s.points);
  REQUIRE(out.hints.size() == 1);
  CHECK(out.hints[0].mean_now == doctest::Approx((5 * 0.2 + 2) / 6));
  // 1.25 x leaves nothing of five and 3.75 - 1 of the sixth. Squares would be least at 0.57 x, which leaves more than now;
  // the best constant, 0.2 ms, leaves 0, 0.1, 0.15, 0.175, 0.1875 and 2.2.
  CHECK(out.hints[0].term == "experts");
  CHECK(out.hints[0].factor == doctest::Approx(1.25));
  CHECK(out.hints[0].mean_then == doctest::Approx(2.75 / 6));
}

}  // namespace
}  // namespace epsim::test
