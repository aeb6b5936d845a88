// `epsim validate --served` of what load generators wrote: what is not in their files is told.
#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "sim/app/served_layout.h"
#include "tests/app/process.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

TEST_CASE("lengths that a load generator did not record are stand-ins, and so are shared prefixes") {
  const TempDir dir;
  const std::string head =
      R"({"request_rate": 5.0, "completed": 2, "total_input_tokens": 600, "total_output_tokens": 16,)"
      R"( "median_ttft_ms": 20.0)";
  std::ofstream(dir / "runs.jsonl") << head << R"(, "input_lens": [300, 300], "output_lens": [8, 8]})"
                                    << "\n"
                                    << head << R"(, "dataset_name": "random", "random_input_len": 300,)"
                                    << R"( "random_output_len": 8, "random_range_ratio": 1.0})"
                                    << "\n"
                                    << head << R"(, "dataset_name": "sharegpt", "random_input_len": 300})"
                                    << "\n"
                                    << head << "}\n"
                                    << head << R"(, "dataset_name": "generated-shared-prefix", "failed": 3})"
                                    << "\n";
  const auto points = app::read_served_points(
      dir / "runs.jsonl", app::read_served_layout(source_dir() / "experiments/served/bench-serving.yaml"));
  REQUIRE(points.size() == 5);
  for (const auto& [i, notes] : {std::pair(0, 0), {1, 0}, {2, 1}, {3, 1}, {4, 3}}) {
    CAPTURE(i);
    CHECK(points[static_cast<std::size_t>(i)].notes.size() == static_cast<std::size_t>(notes));
  }
  check_contains(points[3].notes[0], {"means for every request", "--save-detailed"});
  check_contains(points[4].notes[0], {"3 failed requests"});
  check_contains(points[4].notes[2], {"generated-shared-prefix", "not modelled"});
}

// 8 requests/s were offered: 5.5/s done is 1.45 times slower, 5/s 1.6 times. Of 4 in flight 2.8 are 4 / 1.43, 2.5 are 4 / 1.6: in
// a short run the time to the last answer makes it slower, too, and nothing was held back.
TEST_CASE("max_concurrency beside a rate is a closed loop where it was filled and requests came far slower") {
  const TempDir dir;
  for (const char* done :
       {R"("request_throughput": 5.5, "concurrency": 3.9)", R"("request_throughput": 5.0, "concurrency": 2.8)",
        R"("request_throughput": 5.0, "concurrency": 2.5)", R"("request_throughput": 5.0)",
        R"("request_throughput": null)"}) {
    std::ofstream(dir / "runs.jsonl", std::ios::app)
        << R"({"request_rate": 8.0, "max_concurrency": 4, "completed": 20, "total_input_tokens": 600,)"
        << R"( "total_output_tokens": 160, "median_ttft_ms": 20.0, )" << done << "}\n";
  }
  const auto points = app::read_served_points(
      dir / "runs.jsonl", app::read_served_layout(source_dir() / "experiments/served/bench-serving.yaml"));
  REQUIRE(points.size() == 5);
  for (std::size_t i = 0; i < points.size(); ++i) {
    CAPTURE(i);
    const app::ServedPoint& point = points[i];
    const auto last = std::find_if(point.assignments.rbegin(), point.assignments.rend(),
                                   [](const std::string& text) { return text.starts_with("requests="); });
    check_contains(*last, {i == 1 ? "closed_loop" : "poisson"});
    check_contains(point.notes[0], {i == 1 ? "held requests back" : "taken to hold no request back"});
  }
}

// vLLM writes no mean concurrency: 960 tokens/s of 8 ms each are 7.7 decodes in flight of 8, 300 are 2.4.
TEST_CASE("vLLM's files: a rate that max_concurrency held back, and loads whose times the file does not hold") {
  const TempDir dir;
  const std::string head =
      R"({"completed": 64, "total_input_tokens": 6400, "total_output_tokens": 6400, "median_ttft_ms": 20.0,)"
      R"( "mean_tpot_ms": 8.0, "model_id": "a/b")";
  for (const char* load :
       {R"("request_rate": 50.0, "max_concurrency": 8, "request_throughput": 4.0, "output_throughput": 960.0)",
        R"("request_rate": 50.0, "max_concurrency": 8, "request_throughput": 4.0, "output_throughput": 300.0)",
        R"("request_rate": "inf", "ramp_up_strategy": "linear")", R"("request_rate": "trace")",
        R"("request_rate": "inf", "max_concurrent_requests": 16)",
        R"("request_rate": "inf", "dataset_name": "mooncake")",
        R"("request_rate": "inf", "max_concurrent_requests": 64)"}) {
    std::ofstream(dir / "runs.jsonl", std::ios::app) << head << ", " << load << "}\n";
  }
  const auto points = app::read_served_points(
      dir / "runs.jsonl", app::read_served_layout(source_dir() / "experiments/served/bench-serving.yaml"));
  REQUIRE(points.size() == 7);
  check_contains(points[0].notes[0], {"held requests back"});
  check_contains(points[1].notes[0], {"taken to hold no request back"});
  for (const auto& [i, why] : {std::pair(2, "went up during the run (linear)"),
                               {3, "at times of a trace"},
                               {4, "16 of 64 in flight at most"},
                               {5, "at times of a trace"}}) {
    CAPTURE(i);
    REQUIRE(points[static_cast<std::size_t>(i)].reasons.size() == 1);
    check_contains(points[static_cast<std::size_t>(i)].reasons[0], {why});
  }
  CHECK(points[6].reasons.empty());
}

TEST_CASE("what a file says was served stands beside the scenario, byte order mark or not") {
  const TempDir dir;
  std::ofstream(dir / "run.json") << "\xEF\xBB\xBF"
                                  << R"({"request_rate": 5.0, "completed": 12, "total_input_tokens": 3600,)"
                                     R"( "total_output_tokens": 96, "median_ttft_ms": 20.0,)"
                                     R"( "server_info": {"model_path": "deepseek-ai/DeepSeek-R1", "tp_size": 8}})";
  const std::string layout = " --layout '" + (source_dir() / "experiments/served/bench-serving.yaml").string() + "'";
  const Outcome told = run_epsim(dir, "validate " + small_scenario() + " --served run.json -o out" + layout);
  CHECK_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"\nserved, as the file says: server_info_model_path deepseek-ai/DeepSeek-R1, "
                            "server_info_tp_size 8\nscenario: OLMoE-1B-7B on 16 GPUs, "});
}

TEST_CASE("points without a TPOT are counted; a file without any figure, and a layout that is nowhere, are told") {
  const TempDir dir;
  const std::string load = R"({"backend": "x", "request_rate": "inf", "max_concurrency": 4, "completed": 12,)"
                           R"( "total_input_tokens": 3600, "total_output_tokens": 96)";
  std::ofstream(dir / "ttft.jsonl") << load << R"(, "median_ttft_ms": 20.0})";
  std::ofstream(dir / "none.jsonl") << load << "}";
  std::ofstream(dir / "empty.jsonl") << "\n";
  std::ofstream(dir / "zero.jsonl") << R"({"request_rate": 8.0, "completed": 0, "median_ttft_ms": 20.0})";
  const std::string layout = " --layout '" + (source_dir() / "experiments/served/bench-serving.yaml").string() + "'";
  const Outcome ttft = run_epsim(dir, "validate " + small_scenario() + " --served ttft.jsonl -o out" + layout);
  CAPTURE(ttft.err);
  CHECK(ttft.exit_code == 0);
  check_contains(slurp(dir / "out/groups.csv"), {"\nx,1-8,1,", "\nall,,1,"});
  const Outcome none = run_epsim(dir, "validate " + small_scenario() + " --served none.jsonl" + layout);
  CHECK(none.exit_code == 2);
  check_contains(none.err, {"none.jsonl: no row has a measured figure", "median_ttft_ms", "median_e2e_latency_ms"});
  const Outcome empty = run_epsim(dir, "validate " + small_scenario() + " --served empty.jsonl" + layout);
  CHECK(empty.exit_code == 2);
  check_contains(empty.err, {"empty.jsonl: the file is empty."});
  check_contains(run_epsim(dir, "validate " + small_scenario() + " --served zero.jsonl" + layout).out,
                 {"no request completed"});
  const Outcome outside = run_epsim(dir, "validate " + small_scenario() + " --served ttft.jsonl");
  CHECK(outside.exit_code == 2);
  check_contains(outside.err, {"experiments/served/bench-serving.yaml: this file is epsim's own", "cmake --install"});
}

TEST_CASE("points of a rate alone have no requests in flight to show, and errors are headed by their unit") {
  const TempDir dir;
  std::ofstream(dir / "rate.jsonl")
      << R"({"backend": "x", "request_rate": 5.0, "completed": 12,)"
         R"( "total_input_tokens": 3600, "total_output_tokens": 96, "median_ttft_ms": 20.0})";
  const std::string layout = " --layout '" + (source_dir() / "experiments/served/bench-serving.yaml").string() + "'";
  const Outcome told = run_epsim(dir, "validate " + small_scenario() + " --served rate.jsonl -o out" + layout);
  CHECK_MESSAGE(told.exit_code == 0, told.err);
  check_contains(told.out, {"as 1 different scenario;", "error, %", "\n  1       -     20.00"});
  for (const char* wrong : {"nan", "ttft_share", "1 different scenarios"}) {
    CHECK_MESSAGE(told.out.find(wrong) == std::string::npos, told.out);
  }
}

}  // namespace
}  // namespace epsim::test
