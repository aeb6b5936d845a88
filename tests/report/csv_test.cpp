#include "sim/report/csv.h"

#include <doctest/doctest.h>

#include <sstream>
#include <vector>

#include "sim/core/check.h"
#include "sim/report/csv_table.h"
#include "tests/report/sample_run.h"

namespace epsim {
namespace {

template <class Write>
std::string written(Write write, const RunResult& run) {
  std::ostringstream out;
  write(out, run);
  return out.str();
}

// The lines after the header.
std::vector<std::string> rows(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  REQUIRE(!out.empty());
  out.erase(out.begin());
  return out;
}

}  // namespace

TEST_CASE("CSV fields are quoted where they must be") {
  std::ostringstream out;
  {
    CsvTable csv(out, {"a", "b_s"});
    csv.text("plain text").number(0.1).end_row();
    csv.text("a,b").number(kUndefined).end_row();
    csv.text("say \"hi\"").integer(-3).end_row();
    csv.text("two\nlines").empty().end_row();
  }
  CHECK(out.str() == "a,b_s\nplain text,0.1\n\"a,b\",\n\"say \"\"hi\"\"\",-3\n\"two\nlines\",\n");
}

TEST_CASE("a CSV row with a field missing is a broken invariant") {
  std::ostringstream out;
  CsvTable csv(out, {"a", "b"});
  csv.text("x");
  CHECK_THROWS_AS(csv.end_row(), InvariantBroken);
}

TEST_CASE("requests.csv: one row per request, times from the start of the run") {
  const std::string text = written(write_requests_csv, test::sample_run());
  CHECK(text ==
        "request,dp_rank,state,input_tokens,output_tokens,arrival_s,admitted_s,first_token_s,finished_s,queue_ms,"
        "ttft_ms,tpot_ms,e2e_ms,cached_tokens,retractions,retries\n"
        "0,0,completed,100,5,1,1.2,1.5,2.5,200,500,250,1500,0,0,0\n"  // tpot: 1000 ms over 4 gaps
        "1,0,completed,100,1,2,2,2.25,2.25,0,250,,250,0,0,0\n");      // one token: no gap
}

TEST_CASE("requests.csv: an interrupted run leaves empty cells for what did not happen") {
  const std::vector<std::string> lines = rows(written(write_requests_csv, test::empty_run()));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "0,0,running,100,7,0,0,,,0,,,,0,0,0");
  CHECK(lines[1] == "1,0,running,100,7,0,0.1,0.15,,100,150,,,0,0,0");
  CHECK(lines[2] == "2,,waiting,100,7,0.5,,,,,,,,0,0,0");
}

// Of two layers and GPUs: mean / maximum 4 / 5, 2 / 4, 5 / 8 and 1 in the first, nothing in the second.
constexpr auto with_rows = [](RunResult run) {
  run.detail.gpu_rows = {{5, 3, 0, 0}, {0, 4, 0, 0}, {8, 2, 0, 0}, {7, 7, 0, 0}};
  return run;
};

TEST_CASE("layers.csv: means per step in microseconds") {
  const std::vector<std::string> lines = rows(written(write_layers_csv, with_rows(test::sample_run())));
  REQUIRE(lines.size() == 2);
  // 4 steps: attention 4 ms / 4 = 1000 us, ... 8 ms / 4 = 2000 us in all, straggler 0.8 ms / 4 = 200 us; balancedness
  // 2.0 / 4; loads 300 and 100: 300 / 200 = 1.5, GPU 0, 400 / 4 = 100 assignments per step.
  CHECK(lines[0] ==
        "3,1000,0,250,500,250,0,0,0,0,0,0,0,2000,200,0.5,0.25,1.5,0,100,0.8,0.5,0.625,1,0.9,3,node0.nic."
        "out,0.75,node0.nic.in,1");
  // No load: balanced, no busiest GPU.
  CHECK(lines[1] == "4,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,1,1,,0,,,,,1,0,,,,");
}

TEST_CASE("layers.csv without steps has undefined means, without layers no rows") {
  RunResult run = test::sample_run();
  run.detail.steps = 0;
  CHECK(rows(written(write_layers_csv, run))[0] ==
        "3,,,,,,,,,,,,,,,,,1.5,0,,,,,,0.9,3,node0.nic.out,0.75,node0.nic.in,1");
  CHECK(rows(written(write_layers_csv, test::empty_run())).empty());
}

TEST_CASE("layers.csv without detail per GPU or plan leaves those cells empty") {
  RunResult run = test::sample_run();
  run.detail.gpu_load.clear();
  run.planned_balancedness.clear();
  run.extra_copies.clear();
  CHECK(rows(written(write_layers_csv, run))[0] ==
        "3,1000,0,250,500,250,0,0,0,0,0,0,0,2000,200,0.5,0.25,,,,,,,,,,node0.nic.out,0.75,node0.nic.in,1");
}

TEST_CASE("links.csv: use of each link over the run and over its steps") {
  CHECK(written(write_links_csv, test::sample_run()) ==
        "link,rate_GBps,bytes_GB,utilisation_of_run_share,utilisation_of_steps_share,dispatch_bound_s,"
        "combine_bound_s,busiest\n"
        "node0.nic.out,50,20,0.1,0.2,0.003,0,1\n"  // 20 GB of 50 GB/s x 4 s, and x 2 s
        "node0.nic.in,50,10,0.05,0.1,0.001,0.001,0\n");
}

TEST_CASE("links.csv escapes names and marks one busiest link among equals") {
  RunResult run = test::sample_run();
  run.detail.links = {{"a,b", BytesPerSecond(1e9), Bytes(1e9)}, {"c", BytesPerSecond(1e9), Bytes(1e9)}};
  const std::vector<std::string> lines = rows(written(write_links_csv, run));
  CHECK(lines[0] == "\"a,b\",1,1,0.25,0.5,0.003,0,1");
  CHECK(lines[1] == "c,1,1,0.25,0.5,0.001,0.001,0");
}

TEST_CASE("links.csv and gpus.csv go by the steps of each instance") {
  RunResult run = test::sample_run();
  run.instances.front().gpus = 1;
  run.instances.push_back(run.instances.front());
  run.instances.back().time.total = Seconds(0.5);  // the first one's are 2 s; the run is 4 s
  const auto link = [](const char* name, int instance) {
    return LinkTotals{name, BytesPerSecond(1e9), Bytes(1e8), LinkEnd::kBetween, instance};
  };
  run.detail.links = {link("i0.a", 0), link("i1.a", 1), link("i0.kv_lane0.out", LinkTotals::kBesideSteps)};
  run.detail.bottleneck_s.assign(12, 0.0);
  const std::vector<std::string> links = rows(written(write_links_csv, run));
  CHECK(links[0] == "i0.a,1,0.1,0.025,0.05,0,0,1");
  CHECK(links[1] == "i1.a,1,0.1,0.025,0.2,0,0,0");
  CHECK(links[2] == "i0.kv_lane0.out,1,0.1,0.025,,0,0,0");
  // 0.5 s of 2 s, 0.25 s of 0.5 s.
  const std::vector<std::string> gpus = rows(written(write_gpus_csv, run));
  CHECK(gpus[0] == "0,0,300,1,0.5,0.25");  // the only GPU of its instance: nobody waits for it
  CHECK(gpus[1] == "1,1,100,1,0.25,0.5");
}

TEST_CASE("gpus.csv sums over layers") {
  // GPU 0: 300 + 0 of a mean of 200; 0.5 s of the 2 s of all steps.
  CHECK(written(write_gpus_csv, test::sample_run()) ==
        "gpu,instance,assignments,load_over_mean,expert_busy_s,expert_busy_share\n0,0,300,1.5,0.5,0.25\n"
        "1,0,100,0.5,0.25,0.125\n");
}

TEST_CASE("layer_gpu.csv has one row per layer and GPU") {
  CHECK(written(write_layer_gpu_csv, with_rows(test::sample_run())) ==
        "layer,gpu,assignments,expert_busy_s,rows_sent_inside,rows_received_inside,rows_sent_outside,"
        "rows_received_outside\n3,0,300,0.5,5,0,8,7\n3,1,100,0.25,3,4,2,7\n4,0,0,0,0,0,0,0\n4,1,0,0,0,0,0,0\n");
}

TEST_CASE("layer_steps.csv: a short run has a row per layer and step") {
  CHECK(written(write_layer_steps_csv, test::sample_run()) ==
        "layer,first_step,steps,balancedness_mean\n3,0,1,0.25\n3,1,1,0.75\n3,2,1,0.5\n3,3,1,0.5\n"
        "4,0,1,1\n4,1,1,1\n4,2,1,1\n4,3,1,1\n");
}

TEST_CASE("memory.csv: every GPU's memory comes to the same, what is free on it included") {
  // GPU 0 is the fullest: 2 + 1 + 3 GiB. GPU 1 holds half a GiB less than the 2 GiB of one without copies.
  CHECK(written(write_memory_csv, test::sample_run()) ==
        "gpu,memory_item,memory_gib\n"
        "0,routed experts,2\n0,extra copies,1\n0,kv pool,3\n0,left over,0\n"
        "1,routed experts,1.5\n1,extra copies,0\n1,kv pool,3\n1,left over,1.5\n");
}

TEST_CASE("detail of the wrong size is a broken invariant") {
  RunResult run = test::sample_run();
  run.detail.gpu_load.pop_back();
  std::ostringstream out;
  CHECK_THROWS_AS(write_gpus_csv(out, run), InvariantBroken);
}

TEST_CASE("comparison.csv: best run first, changes against the run given first") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  eplb.set("requests_per_s", 0.625);     // 0.625 / 0.5 - 1 = 0.25
  eplb.set("kv_tokens_per_rank", 1200);  // 1200 / 1600 - 1 = -0.25
  std::ostringstream out;
  write_comparison_csv(out, one_seed(std::vector{base, eplb}, 7));
  const std::vector<std::string> lines = rows(out.str());
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "1,eplb,7,0,2,0.625,0.75,375,500,250,250,250,875,0.75,0.25,1200,3,0.25,0.25,0.25,0,0,0,-0.25,0");
  CHECK(lines[1] == "2,base,7,0,2,0.5,0.75,375,500,250,250,250,875,0.75,0.25,1600,3,0.25,0.25,0,0,0,0,0,0");
}

TEST_CASE("requests.csv of many requests goes out in pieces and is complete") {
  RunResult run = test::sample_run();
  const RequestRecord one = run.requests[0];
  run.requests.assign(20000, one);
  const std::vector<std::string> lines = rows(written(write_requests_csv, run));
  REQUIRE(lines.size() == 20000);
  CHECK(lines.back() == "19999,0,completed,100,5,1,1.2,1.5,2.5,200,500,250,1500,0,0,0");
}

}  // namespace epsim
