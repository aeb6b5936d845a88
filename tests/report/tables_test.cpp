#include "sim/report/tables.h"

#include <doctest/doctest.h>

#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sim/core/check.h"
#include "sim/report/ranking.h"
#include "sim/report/text_table.h"
#include "tests/report/sample_run.h"

namespace epsim {
namespace {

std::vector<std::string> lines(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

std::size_t widest(const std::string& text) {
  std::size_t width = 0;
  for (const std::string& line : lines(text)) {
    width = std::max(width, display_width(line));
  }
  return width;
}

// The text as one line with single spaces, for sentences that may break anywhere.
std::string unwrapped(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string word; in >> word;) {
    out.append(out.empty() ? "" : " ").append(word);
  }
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A run with figures as wide as a real one's.
RunSummary wide_run(const std::string& label) {
  RunSummary s = summarize(test::sample_run(label));
  s.set("requests_per_s", 12345.6);
  s.set("output_tokens_per_s_per_gpu", 123456.7);
  for (const char* latency : {"ttft_mean_ms", "ttft_p99_ms", "itl_mean_ms", "tpot_mean_ms", "e2e_mean_ms"}) {
    s.set(latency, 1234567.8);
  }
  s.set("kv_tokens_per_rank", 12345678);
  s.set("kv_pool_gib_per_gpu", 123.456);
  return s;
}

}  // namespace

TEST_CASE("a table aligns numbers to the right and names to the left") {
  TextTable table;
  table.add_column({"", "policy"}, Align::kLeft);
  table.add_column({"TTFT", "ms"});
  table.add_row({"größe", "1"});
  table.add_row({"b", "12345"});
  CHECK(table.render(1) ==
        "          TTFT\n"
        " policy     ms\n"
        " ─────────────\n"
        " größe       1\n"
        " b       12345\n");
  CHECK_THROWS_AS(table.add_row({"one cell"}), InvariantBroken);
}

TEST_CASE("the comparison is ranked and says by which rule") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  eplb.set("requests_per_s", 0.625);
  const std::string text = comparison_table(one_seed(std::vector{base, eplb}));
  const std::vector<std::string> rows = lines(text);
  REQUIRE(rows.size() >= 10);
  CHECK(has(rows[0], "requests/s offered are served"));  // three lines and an empty one
  CHECK(rows[0].starts_with("base: 0.5000 of "));
  CHECK(has(rows[1], "Take more of the trace, or a longer one, before you compare"));
  Comparison generated = one_seed(std::vector{base});
  generated.length_key = "count";
  CHECK(has(comparison_table(generated), "Raise requests.count to bring the two closer"));
  CHECK(rows[8].substr(0, 9) == "1  eplb  ");  // three header lines and a rule come first
  CHECK(has(rows[8], "0.6250"));
  CHECK(rows[9].substr(0, 9) == "2  base  ");
  CHECK(has(text, "Ranked by completed requests/s"));
  CHECK(!has(text, "\033"));
}

TEST_CASE("the best row is bold on a terminal only, and not when it is the only one") {
  const std::vector runs{summarize(test::sample_run("base")), summarize(test::sample_run("eplb"))};
  CHECK(has(comparison_table(one_seed(runs), {true}), "\033[1m1  base"));
  CHECK(!has(comparison_table(one_seed(std::vector{runs[0]}), {true}), "\033"));
}

TEST_CASE("tables fit 120 columns with wide figures and long names") {
  const std::vector runs{wide_run("a_policy_with_a_rather_long_name_of_its_own"), wide_run("eplb")};
  CHECK(widest(comparison_table(one_seed(runs))) <= 120);
  CHECK(widest(run_detail(runs[0])) <= 120);
  CHECK(widest(conclusion_text(one_seed(runs))) <= 120);
  CHECK(has(comparison_table(one_seed(runs)), "a_policy_with_a~"));
}

TEST_CASE("over seeds the table has means with intervals, and differences below") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  Comparison runs{{7, 8}, {{base, base}, {eplb, eplb}}};
  // Served: 1 and 1 against 2 and 2.5. Differences 1 and 1.5: mean 1.25, half width 12.706 x 0.25 = 3.1765, over 1.
  runs.by_policy[0][0].set("requests_per_s", 1);
  runs.by_policy[0][1].set("requests_per_s", 1);
  runs.by_policy[1][0].set("requests_per_s", 2);
  runs.by_policy[1][1].set("requests_per_s", 2.5);
  runs.by_policy[1][0].set("ttft_mean_ms", 300);
  runs.by_policy[1][1].set("ttft_mean_ms", 300);  // 375 in base: -20 %, no spread
  const std::string text = comparison_table(runs);
  CHECK(has(text, "2.250 +- 3.176"));
  CHECK(has(text, "against base"));
  CHECK(has(text, "= +125.0 +- 317.6 %"));
  CHECK(has(text, "-20.0 +- 0.0 %"));
  CHECK(has(text, "=: no difference"));
  CHECK(widest(text) <= 120);
}

TEST_CASE("in overload the table begins by saying so") {
  std::vector runs{summarize(test::sample_run("base")), summarize(test::sample_run("eplb"))};
  runs[0].set("overloaded", true);  // base serves 0.5 of the 1 requests/s that are offered
  CHECK(comparison_table(one_seed(runs)).starts_with("1.000 requests/s are offered and base serves at most 0.5000"));
}

TEST_CASE("the details say how unevenly several instances work, of each role apart") {
  RunSummary run = summarize(test::sample_run());
  run.instances = {{"whole", 9, 0.9, 0.982}, {"whole", 1, 0.1, 0.05}, {"whole", 0, 0, 0}};
  CHECK(run_detail(run).find("instances     busy 0.0 to 98.2 % of the time\n") != std::string::npos);
  run.instances = {{"prefill", 1, 0.1, 0.05}, {"decode", 9, 0.9, 0.982}, {"decode", 5, 0.5, 0.5}};
  CHECK(run_detail(run).find("instances     decode busy 50.0 to 98.2 % of the time\n") != std::string::npos);
  run.instances[2].busy_share = 0.98204;  // 98.2 % as well
  CHECK(run_detail(run).find("instances     decode busy 98.2 % of the time\n") != std::string::npos);
  run.instances.pop_back();
  CHECK(run_detail(run).find("instances  ") == std::string::npos);
}

TEST_CASE("the detail of a run states every group of figures with units") {
  RunResult none = test::sample_run();
  none.kv.hit_tokens = 0;
  CHECK_FALSE(has(run_detail(summarize(none)), "prefix cache"));
  none.kv.prefix_cache = true;  // requests have prefixes in common, and it found nothing
  CHECK(has(run_detail(summarize(none)), "prefix cache  0 of 200 input tokens found, 0.0 %"));
  const std::string text = run_detail(summarize(test::sample_run()));
  CHECK(has(text, "eplb\n  plan          one copy more per layer\n"));
  CHECK(has(text, "2 of 2 completed in 4.000 s; offered 1.000/s, served 0.5000/s"));
  CHECK(has(text, "4 of 500.0 ms on average; busy 50.0 % of the time"));
  CHECK(has(text, "measured 50.0 %, interpolated 25.0 %, extrapolated 12.5 %, spec_sheet 12.5 %, declared 0.0 %"));
  CHECK(has(text, "mean 0.750, worst 0.500 in layer 3, lowest step 0.250; planned 0.950"));
  CHECK(has(text, "node0.nic.out, 10.0 % of its rate on average"));
  CHECK(has(text, "1,600 tokens per rank, 3.000 GiB per GPU (70272 B per token and GPU); 25.0 % lost to copies"));
  CHECK(has(text, "memory, GiB   routed experts 2.000, extra copies 1.000, kv pool 3.000"));
  RunResult apart = test::sample_run();
  apart.prefill_memory = {{"routed experts", Bytes(4 * kGiB)}, {"reserves", Bytes(0)}};
  const std::string pools = run_detail(summarize(apart));
  CHECK(has(pools, "memory, GiB   prefill: routed experts 4.000\n"));
  CHECK(has(pools, "memory, GiB   decode: routed experts 2.000, extra copies 1.000, kv pool 3.000"));
  CHECK(has(pools, "decode: 1,600 tokens per rank"));
  RunResult uneven = test::sample_run();
  uneven.memory.items[1].name = kUnevenExpertsItem;
  const std::string words = std::regex_replace(run_detail(summarize(uneven)), std::regex("\\s+"), " ");
  CHECK(has(words, "25.0 % lost to uneven experts"));
  // The time table: 1 s of prompts in one step, half as long for each of two decodes, so 25 % each of the 2 s for
  // decodes and the mixed step; attention is a quarter of all.
  CHECK(has(text, "ms per step"));
  CHECK(has(text, "prefill          1   50.0   1000   250.0"));
  CHECK(has(text, "decode           2   25.0  250.0   62.50"));
  CHECK(has(text, "mixed            1   25.0  500.0   125.0"));
  CHECK(has(text, "all              4  100.0  500.0   125.0"));
  CHECK(has(text, "share, %                   100.0    25.0"));
}

TEST_CASE("what lost GPUs did to the experts stands in the detail where any went") {
  RunResult run = test::sample_run();
  CHECK(run_detail(summarize(run), {}).find("lost GPUs") == std::string::npos);
  run.regroup = {2, 1500, Bytes(3 * kGiB), Bytes(kGiB), to_ticks(Seconds{0.25})};
  const std::string detail = run_detail(summarize(run), {});
  for (const char* says : {"2 changes", "1,500 copies", "3.000 GiB", "1.000 GiB", "0.250 s"}) {
    CAPTURE(says);
    CHECK(detail.find(says) != std::string::npos);
  }
  CHECK(widest(detail) <= 120);
}

TEST_CASE("an interrupted run is marked, and undefined figures are dashes") {
  const std::vector runs{summarize(test::empty_run()), summarize(test::sample_run())};
  const std::string table = comparison_table(one_seed(runs));
  CHECK(has(table, "2  base *"));
  CHECK(has(table, "* interrupted: only what was complete is counted"));
  CHECK(!has(table, "nan"));
  const std::string detail = run_detail(runs[0]);
  CHECK(has(unwrapped(detail), "interrupted with 2 running and 1 waiting: only complete steps count"));
  CHECK(!has(detail, "balancedness"));  // of no step
  CHECK(!has(detail, "nan"));
}

TEST_CASE("names cannot reach the terminal as control sequences") {
  const RunSummary run = summarize(test::sample_run("\033[2Jgone"));
  CHECK(!has(run_detail(run), "\033"));
  CHECK(!has(comparison_table(one_seed(std::vector{run})), "\033"));
  CHECK(!has(conclusion_text(one_seed(std::vector{run, run})), "\033"));
}

TEST_CASE("conclusions: one paragraph per run after the first") {
  const RunSummary run = summarize(test::sample_run());
  CHECK(conclusion_text(one_seed(std::vector{run})).empty());
  CHECK(has(conclusion_text(one_seed(std::vector{run, run})), "eplb against eplb: throughput 0.0 %"));
}

}  // namespace epsim
