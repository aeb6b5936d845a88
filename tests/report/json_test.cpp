#include "sim/report/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/report/ranking.h"
#include "tests/report/sample_run.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

RunInfo info() { return {"0.1.0", "quickstart", 18446744073709551615ULL, "seed: 1\n", {{"conv.csv", 1234, "00ff"}}}; }

}  // namespace

TEST_CASE("summary.json says what ran and from what") {
  const Json json = Json::parse(summary_json(summarize(test::sample_run()), info()));
  CHECK(json["format"] == 1);
  CHECK(json["epsim_version"] == "0.1.0");
  CHECK(json["scenario"] == "quickstart");
  CHECK(json["seed"] == 18446744073709551615ULL);
  REQUIRE(json["inputs"].size() == 1);
  CHECK(json["inputs"][0].dump() == R"({"file_name":"conv.csv","size_bytes":1234,"content_hash":"00ff"})");
  CHECK(json["policy"] == "eplb");
  CHECK(json["fingerprint"] == "00000000deadbeef");
  CHECK(json["interrupted"] == false);
}

TEST_CASE("summary.json holds the figures of the summary") {
  const Json json = Json::parse(summary_json(summarize(test::sample_run()), info()));
  CHECK(json["requests"]["completed_requests"] == 2);
  CHECK(json["throughput"]["requests_per_s"] == 0.5);
  CHECK(json["latency"]["ttft_mean_ms"] == 375.0);
  CHECK(json["latency"]["queue_p99_ms"] == 200.0);
  CHECK(json["step"]["step_mean_ms"] == 500.0);
  CHECK(json["time_by_part"]["experts_s"] == 0.75);
  CHECK(json["time_by_part"]["experts_share"] == 0.375);
  CHECK(json["time_by_origin"]["spec_sheet_share"] == 0.125);
  CHECK(json["carried_over"] == nlohmann::json::array());
  CHECK(json["straggler"]["straggler_share"] == 0.25);
  CHECK(json["balancedness"]["balancedness_worst_layer"] == 3);
  CHECK(json["kv"]["kv_copies_gib_per_gpu"] == 1.0);
  CHECK(json["kv"]["prefix_hit_share"] == 0.25);  // 50 of 200
  CHECK(json["kv"]["retractions"] == 3);
  CHECK(json["kv"]["recomputed_tokens"] == 700);
  CHECK(json["step"]["graph_steps"] == 1);
  CHECK(json["step"]["decode_steps"] == 2);
  CHECK(json["step"]["decode_step_mean_ms"] == 250.0);
  CHECK(json["step"]["mixed_step_time_share"] == 0.25);
  REQUIRE(json["step_kinds"].size() == 3);  // one pool
  CHECK(json["step_kinds"][0]["pool"] == "all");
  CHECK(json["step_kinds"][0]["step_kind"] == "prefill");
  CHECK(json["step_kinds"][0]["step_time_s"] == 1.0);
  CHECK(json["step_kinds"][1]["experts_s"] == 0.1875);  // a quarter of 0.75 s
  CHECK(json["step_kinds"][2]["straggler_s"] == 0.125);
  CHECK(json["instances"][0]["instance_role"] == "whole");
  CHECK(json["instances"][0]["busy_share"] == 0.5);  // 2 s of 4
  CHECK(json["kv_transfers"]["transfer_mean_ms"] == 4.0);
  CHECK(json["kv_transfers"]["transfer_wait_mean_ms"] == 1.0);
  CHECK(json["memory"][2].dump() == R"({"memory_item":"kv pool","memory_gib":3.0})");
  CHECK_FALSE(json.contains("prefill_memory"));
  CHECK(json["busiest_link"]["link_name"] == "node0.nic.out");
  CHECK(json["dispatch_bottleneck"]["dispatch_bottleneck_link"] == "node0.nic.out");
  CHECK(json["dispatch_bottleneck"]["dispatch_bottleneck_s"] == 0.003);
  CHECK(json["dispatch_bottleneck"]["dispatch_bottleneck_share"] == 0.75);
  CHECK(json["combine_bottleneck"]["combine_bottleneck_link"] == "node0.nic.in");
  CHECK(json["conservation"]["sent_bytes"] == 30e9);
  CHECK(json["conservation"]["sent_between_nodes_bytes"] == 20e9);  // of its one NIC
  CHECK(json["conservation"]["sent_inside_nodes_bytes"] == 10e9);
  CHECK(json["balancedness"]["gpu_load_deviation"] == 0.25);  // 300 and 100: 100 / 200; nothing on the other layer
  // Busy for 0.5 and 0.25 s: 0.375 s on average.
  CHECK(json["straggler"]["gpu_idle_s"] == json["time_by_part"]["experts_s"].get<double>() - 0.375);
}

TEST_CASE("GPUs wait for those of their own instance alone") {
  // Three GPUs with 0.5, 0.25 and 0.5 s of expert work: 0.375 s on average in the first instance, of two, and 0.5 in the
  // second. Expert work of the two instances' slowest GPUs: 1 s.
  RunResult run = test::sample_run();
  run.instances.push_back(run.instances[0]);
  run.instances[1].gpus = 1;
  run.detail.gpus = 3;
  run.detail.gpu_load = {300, 100, 200, 0, 0, 0};
  run.detail.gpu_busy_s = {0.5, 0.25, 0.5, 0, 0, 0};
  run.time.by_part[static_cast<std::size_t>(LayerPart::kExperts)] = Seconds(1.0);
  const nlohmann::json json = nlohmann::json::parse(summary_json(summarize(run), info()));
  CHECK(json["straggler"]["gpu_idle_s"] == 1.0 - 0.875);
  // Equal work, summed in another order, comes to a little less: no GPU waits.
  run.time.by_part[static_cast<std::size_t>(LayerPart::kExperts)] = Seconds(0.875 - 1e-12);
  CHECK(nlohmann::json::parse(summary_json(summarize(run), info()))["straggler"]["gpu_idle_s"] == 0.0);
}

TEST_CASE("keys keep their order, and the text ends with a newline") {
  const std::string text = summary_json(summarize(test::sample_run()), info());
  CHECK(text.substr(0, 58) == "{\n  \"format\": 1,\n  \"epsim_version\": \"0.1.0\",\n  \"scenario\":");
  CHECK(text.back() == '\n');
  CHECK(text.find("\"throughput\"") < text.find("\"latency\""));
  CHECK(text.find("\"latency\"") < text.find("\"kv\""));
  CHECK(text == summary_json(summarize(test::sample_run()), info()));
}

TEST_CASE("what is not defined is null") {
  const Json json = Json::parse(summary_json(summarize(test::empty_run()), info()));
  CHECK(json["latency"]["ttft_mean_ms"].is_null());
  CHECK(json["latency"]["ttft_samples"] == 0);
  CHECK(json["step"]["step_mean_ms"].is_null());
  CHECK(json["balancedness"]["balancedness_worst_layer"].is_null());
  CHECK(json["busiest_link"].is_null());
  CHECK(json["dispatch_bottleneck"].is_null());
  CHECK(json["throughput"]["requests_per_s"] == 0.0);
  CHECK(json["interrupted"] == true);
  CHECK(json["memory"].is_array());
}

TEST_CASE("names with quotes, line breaks, control characters and broken UTF-8 are escaped") {
  RunResult run = test::sample_run("a\"b\n\x01<\xff>");
  const Json json = Json::parse(summary_json(summarize(run), info()));
  CHECK(json["policy"] == "a\"b\n\x01<\xEF\xBF\xBD>");  // the stray byte becomes U+FFFD
}

TEST_CASE("comparison.json lists the runs, best first") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  eplb.set("requests_per_s", 0.625);
  const Json json = Json::parse(comparison_json(one_seed(std::vector{base, eplb}), info()));
  CHECK(json["ranking_rule"] == kRankingRule);
  CHECK(json["compared_with"] == "base");
  REQUIRE(json["runs"].size() == 2);
  CHECK(json["runs"][0]["rank"] == 1);
  CHECK(json["runs"][0]["policy"] == "eplb");
  CHECK(json["runs"][0]["change"]["requests_per_s_change_share"] == 0.25);
  CHECK(json["runs"][1]["rank"] == 2);
  CHECK(json["runs"][1]["change"]["requests_per_s_change_share"] == 0.0);
  CHECK(json["conclusions"] == Json(conclusions(one_seed(std::vector{base, eplb}))));
  // One seed has no interval.
  CHECK(json["seeds"] == 1);
  const Json& served = json["runs"][0]["over_seeds"]["requests_per_s"];
  CHECK(served["mean"] == 0.625);
  CHECK(served["interval95"].is_null());
  CHECK(served["by_seed"] == Json{0.625});
  CHECK(served["difference"]["mean"] == 0.125);
  CHECK(served["difference"]["interval95"].is_null());
  CHECK(json["overload"].is_null());
}

TEST_CASE("comparison.json over seeds has the intervals of means and of paired differences") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  Comparison runs{{7, 8}, {{base, base}, {eplb, eplb}}};
  runs.by_policy[0][0].set("requests_per_s", 1);
  runs.by_policy[0][1].set("requests_per_s", 3);
  runs.by_policy[1][0].set("requests_per_s", 2);
  runs.by_policy[1][1].set("requests_per_s", 4.5);
  const Json json = Json::parse(comparison_json(runs, info()));
  CHECK(json["seeds"] == 2);
  CHECK(json["runs"][0]["throughput"]["requests_per_s"] == 2.0);  // of the first seed
  const Json& served = json["runs"][0]["over_seeds"]["requests_per_s"];
  // 2 and 4.5: mean 3.25, standard error 1.25; 1 and 1.5: mean 1.25, standard error 0.25; t of one degree is 12.706.
  CHECK(served["by_seed"] == Json{2.0, 4.5});
  CHECK(served["mean"] == 3.25);
  CHECK(served["interval95"][0].get<double>() == doctest::Approx(3.25 - 12.706 * 1.25).epsilon(1e-4));
  CHECK(served["interval95"][1].get<double>() == doctest::Approx(3.25 + 12.706 * 1.25).epsilon(1e-4));
  CHECK(served["difference"]["mean"] == 1.25);
  CHECK(served["difference"]["interval95"][1].get<double>() == doctest::Approx(1.25 + 12.706 * 0.25).epsilon(1e-4));
}

TEST_CASE("a comparison of nothing is still a document") {
  const Json json = Json::parse(comparison_json({}, info()));
  CHECK(json["compared_with"].is_null());
  CHECK(json["runs"].empty());
}

}  // namespace epsim
