#include "sim/report/ranking.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/report/sample_run.h"

namespace epsim {
namespace {

RunSummary run_with(double requests_per_s, double ttft_mean_ms) {
  RunSummary out;
  out.completed = 10;
  out.throughput.requests_per_s = requests_per_s;
  out.ttft.mean_ms = ttft_mean_ms;
  return out;
}

using Order = std::vector<std::size_t>;

}  // namespace

TEST_CASE("more requests per second ranks higher") {
  CHECK(rank_runs(std::vector{run_with(2.0, 10), run_with(3.0, 99)}) == Order{1, 0});
}

TEST_CASE("within 1 % the lower mean TTFT ranks higher") {
  // 99 % of 3 is 2.97, which lies between the two.
  CHECK(rank_runs(std::vector{run_with(3.0, 20), run_with(2.98, 10)}) == Order{1, 0});
  CHECK(rank_runs(std::vector{run_with(3.0, 20), run_with(2.96, 10)}) == Order{0, 1});
}

TEST_CASE("groups of equals are cut from the best, so a chain of small steps does not join them all") {
  // 100 and 99.2 are equal, 98.5 is within 1 % of 99.2 but not of 100, so it ranks below both whatever its TTFT.
  CHECK(rank_runs(std::vector{run_with(98.5, 1), run_with(100, 30), run_with(99.2, 20)}) == Order{2, 1, 0});
}

TEST_CASE("equal in all: the order given; nothing completed: last") {
  CHECK(rank_runs(std::vector{run_with(1, 5), run_with(1, 5)}) == Order{0, 1});
  RunSummary none;
  none.throughput.requests_per_s = 0;
  CHECK(rank_runs(std::vector{none, run_with(0.001, 5), none}) == Order{1, 0, 2});
  CHECK(rank_runs(std::vector<RunSummary>{}).empty());
}

TEST_CASE("changes are relative to the first run") {
  RunSummary first = run_with(2.0, 400), second = run_with(2.5, 300);
  first.kv.tokens_per_rank = 1000;
  second.kv.tokens_per_rank = 810;
  second.kv.copies_gib_per_gpu = 4.758;
  const Change c = change(first, second);
  CHECK(c.requests_per_s == 0.25);
  CHECK(c.ttft_mean == -0.25);
  CHECK(c.kv_tokens == doctest::Approx(-0.19));
  CHECK(c.copies_gib_per_gpu == 4.758);
  CHECK(std::isnan(c.itl_mean));
}

TEST_CASE("the conclusion says what is gained and what it costs in KV cache") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  base.kv.copies_gib_per_gpu = 0;
  base.kv.tokens_per_rank = 2000;
  eplb.ttft.mean_ms = 300;  // 300 / 375 - 1 = -20 %
  eplb.balancedness.mean = 0.9;
  CHECK(
      conclusion(base, eplb) ==
      "eplb against base: throughput 0.0 % (0.5000 against 0.5000 requests/s), mean TTFT -20.0 % (300.0 against 375.0 "
      "ms), mean ITL 0.0 % (250.0 against 250.0 ms), mean end-to-end 0.0 % (875.0 against 875.0 ms), balancedness "
      "0.900 against 0.750. KV pool -20.0 % (1,600 against 2,000 tokens per rank): it gives up 1.000 GiB per GPU for "
      "copies. No request waited for KV blocks in either run, so the size of the pool made no difference at this "
      "load.");
}

TEST_CASE("the conclusion tells of a full pool, of saved copies and of none") {
  RunSummary first = summarize(test::sample_run("eplb")), second = summarize(test::sample_run("base"));
  second.kv.copies_gib_per_gpu = 0.25;
  second.kv.full_time_share = 0.125;
  const std::string text = conclusion(first, second);
  CHECK(text.find("it saves 0.750 GiB per GPU") != std::string::npos);
  CHECK(text.find("lacked KV blocks in 12.5 % of the busy time (against 0.0 %)") != std::string::npos);
  CHECK(conclusion(first, first).find("no memory goes to further copies") != std::string::npos);
}

TEST_CASE("a run that cannot keep up says that its latencies grow with its length") {
  RunSummary base = summarize(test::sample_run("base"));
  RunSummary slow = base;
  slow.label = "slow";
  slow.throughput.offered_requests_per_s = 2 * base.throughput.requests_per_s;
  slow.queue.p99_ms = 0.5e3 * base.throughput.duration_s;  // the last requests wait for half of the run
  CHECK(conclusion(base, slow).find("slow could not keep up") != std::string::npos);
  slow.queue.p99_ms = 0;  // nobody waits: only the tail after the last arrival
  CHECK(conclusion(base, slow).find("could not keep up") == std::string::npos);
}

}  // namespace epsim
