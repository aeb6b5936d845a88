#include "sim/report/perfetto.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/core/error.h"
#include "tests/report/timeline_checks.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

using Json = nlohmann::ordered_json;

Ticks us(std::int64_t n) { return Ticks{n * 1'000'000}; }

// A step of two DP ranks of two GPUs each: attention, a dispatch of all, experts, of GPU 3 none; then a second batch
// whose dispatch runs while the first's experts do.
void record_step(TimelineRecorder& recorder, std::int64_t step, Ticks start) {
  const std::vector<RankBatch> ranks{{.prefill_tokens = 512}, {.decode_tokens = 7}};
  recorder.begin_step({0, step, start, ranks});
  recorder.kv(std::vector<std::int64_t>{100 + step, 0});
  recorder.span({3, LayerPart::kAttention, StepLane::kCompute, 0, 0, 2, us(0), us(10)});
  recorder.span({3, LayerPart::kAttention, StepLane::kCompute, 0, 2, 2, us(0), us(8)});
  recorder.span({3, LayerPart::kDispatch, StepLane::kNetwork, 0, 0, 4, us(10), us(5)});
  recorder.span({3, LayerPart::kExperts, StepLane::kCompute, 0, 0, 3, us(15), us(20)});
  recorder.span({3, LayerPart::kDispatch, StepLane::kNetwork, 1, 0, 4, us(12), us(6)});  // beside the first batch's
  recorder.span({3, LayerPart::kExperts, StepLane::kCompute, 1, 0, 4, us(35), us(5)});
  recorder.span({-1, LayerPart::kOther, StepLane::kCompute, 0, 0, 4, us(40), Ticks{1'500'001}});
  const std::vector<double> out{1, 2, 3, 4}, in{4, 3, 2, 1}, none(4, 0.0);
  recorder.exchange({3, LayerPart::kDispatch, 0, 1e6, out, in, none, none});
  recorder.end_step(us(42), {});
}

Json recorded(TimelineChoice window, std::int64_t steps) {
  TimelineRecorder recorder(window);
  for (std::int64_t s = 0; s < steps; ++s) {
    record_step(recorder, s, us(50 * s));
  }
  std::ostringstream out;
  write_timeline(out, recorder, "eplb \"quoted\"");
  return Json::parse(out.str());
}

std::vector<Json> of_phase(const Json& trace, const std::string& phase) {
  std::vector<Json> out;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) {
      out.push_back(event);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("timeline: well formed, and only the steps that were asked for") {
  const Json trace = recorded({1, 2}, 5);
  test::check_timeline(trace);
  CHECK(trace["otherData"]["run"] == "eplb \"quoted\"");
  std::vector<std::string> steps;
  for (const Json& slice : of_phase(trace, "X")) {
    if (slice["cat"] == "step") {
      steps.push_back(slice["name"]);
      CHECK(slice["dur"] == 42.0);
    }
  }
  CHECK(steps == std::vector<std::string>{"step 1", "step 2"});
  CHECK(of_phase(recorded({7, 9}, 5), "X").empty());
}

TEST_CASE("timeline: a slice per GPU of a piece, with what the GPU exchanges") {
  const Json trace = recorded({0, 0}, 1);
  std::map<std::string, int> count;
  for (const Json& slice : of_phase(trace, "X")) {
    ++count[slice["name"]];
    if (slice["name"] == "dispatch 3" && slice["args"]["micro_batch"] == 0) {
      // Rows of 1 MB: GPU g sends g + 1 and receives 4 - g. GPU 0 and 1 are of process 2, 2 and 3 of process 3.
      const double sent = slice["args"]["layer_sent_MB"], received = slice["args"]["layer_received_MB"];
      CHECK(sent + received == 5);
      CHECK(slice["pid"] == (sent <= 2 ? 2 : 3));
      CHECK(slice["ts"] == 10.0);
    }
    if (slice["name"] == "other") {
      CHECK(slice["dur"].dump() == "1.500001");  // to the picosecond
    }
  }
  CHECK(count == std::map<std::string, int>{
                     {"attention 3", 4}, {"dispatch 3", 8}, {"experts 3", 7}, {"other", 4}, {"step 0", 1}});
}

TEST_CASE("timeline: pieces beside each other have tracks of their own") {
  std::set<std::string> names;
  for (const Json& event : of_phase(recorded({0, 0}, 1), "M")) {
    if (event["name"] == "thread_name") {
      names.insert(event["args"]["name"]);
    }
  }
  CHECK(names.contains("GPU 0 compute"));
  CHECK(names.contains("GPU 0 network"));
  CHECK(names.contains("GPU 0 network (2)"));  // the second batch's dispatch
  CHECK_FALSE(names.contains("GPU 0 compute (2)"));
}

TEST_CASE("timeline: flows go from attention through the dispatch to the experts of a GPU") {
  const Json trace = recorded({0, 0}, 1);
  // First batch: GPUs 0 to 2 have all three, GPU 3 has no experts. Second batch: dispatch and experts on four GPUs.
  CHECK(of_phase(trace, "s").size() == 8);
  CHECK(of_phase(trace, "t").size() == 3);
  CHECK(of_phase(trace, "f").size() == 8);
}

TEST_CASE("timeline: counters of every rank") {
  const Json trace = recorded({2, 2}, 3);
  const std::vector<Json> counters = of_phase(trace, "C");
  REQUIRE(counters.size() == 4);
  CHECK(counters[0]["pid"] == 2);
  CHECK(counters[0]["args"] == Json({{"prefill", 512}, {"decode", 0}}));
  CHECK(counters[1]["args"] == Json({{"reserved", 102}}));
  CHECK(counters[2]["pid"] == 3);
  CHECK(counters[2]["args"] == Json({{"prefill", 0}, {"decode", 7}}));
}

TEST_CASE("timeline: what a step waited for is where it was, and the host's time behind the step's pieces") {
  StepCost waited, cost;
  waited.by_part[static_cast<std::size_t>(LayerPart::kPlanning)] = 40_us;
  waited.by_part[static_cast<std::size_t>(LayerPart::kMigration)] = 60_us;
  waited.total = 100_us;
  cost.by_part[static_cast<std::size_t>(LayerPart::kHost)] = 5_us;
  TimelineRecorder recorder({0, 0});
  recorder.begin_step(
      {0, 0, us(150), std::vector<RankBatch>{{.decode_tokens = 7}}, waited, us(30)});  // the 20 from 130 are a pause
  recorder.span({3, LayerPart::kExperts, StepLane::kCompute, 0, 0, 2, us(0), us(20)});
  recorder.end_step(us(30), cost);  // 20 priced, 5 of the host, 5 declared
  std::ostringstream out;
  write_timeline(out, recorder, "");
  const Json trace = Json::parse(out.str());
  test::check_timeline(trace);
  std::map<std::string, std::pair<double, double>> at;
  for (const Json& slice : of_phase(trace, "X")) {
    at[slice["name"]] = {slice["ts"], slice["dur"]};
  }
  CHECK(at["planning"] == std::pair(30.0, 40.0));
  CHECK(at["migration"] == std::pair(70.0, 60.0));
  CHECK(at["step 0"] == std::pair(150.0, 30.0));
  CHECK(at["host"] == std::pair(170.0, 5.0));
}

TEST_CASE("timeline: the window as it is written") {
  CHECK(parse_timeline("100").first == 100);
  CHECK(parse_timeline("100").last == 100);
  CHECK(parse_timeline("100:3").last == 103);
  CHECK(parse_timeline("0:999").last == 999);
  for (const char* wrong :
       {"", "x", "-1", "3:", ":3", "3:-1", "1.5", "3:4:5", "1e3", "0:1000", "99999999999999999999"}) {
    CAPTURE(wrong);
    test::check_contains(test::error_of<InputError>([&] { parse_timeline(wrong); }).what(), {"timeline"});
  }
}

TEST_CASE("timeline: of the slowest step, the first of the longest of its kind is kept, whatever instance ran it") {
  const std::vector<RankBatch> prompts{{.prefill_tokens = 512}}, decodes{{.decode_tokens = 7}};
  struct Row {
    std::int32_t instance;
    std::int64_t step;
    bool decode;
    std::int64_t length_us;
  };
  const auto kept = [&](const std::string& choice) {
    TimelineRecorder recorder(parse_timeline(choice));
    for (const Row& r :
         {Row{0, 0, false, 90}, Row{1, 0, true, 30}, Row{0, 1, true, 40}, Row{1, 1, true, 40}, Row{0, 2, true, 10}}) {
      recorder.begin_step({r.instance, r.step, us(100 * r.step), r.decode ? decodes : prompts});
      recorder.span({3, LayerPart::kExperts, StepLane::kCompute, 0, 0, 2, us(0), us(r.length_us)});
      recorder.end_step(us(r.length_us), {});
    }
    REQUIRE(recorder.steps().size() == 1);
    REQUIRE(recorder.slices().size() == 2);  // of two GPUs
    CHECK(recorder.slices()[0].duration == recorder.steps()[0].length);
    return recorder.steps()[0];
  };
  CHECK(kept("slowest-decode").instance == 0);
  CHECK(kept("slowest-decode").step == 1);
  CHECK(kept("slowest").length == us(90));
  CHECK(kept("slowest-prefill").step == 0);
  CHECK(kept("slowest-prefill").gpus == 2);
  TimelineRecorder none(parse_timeline("slowest-mixed"));
  CHECK(none.steps().empty());
}

}  // namespace epsim
