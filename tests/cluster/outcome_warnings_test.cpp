// What a run's outcome warns of.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "sim/cluster/run_policy.h"
#include "sim/scenario/read_scenario.h"

namespace epsim {
namespace {

// Whether a run of these sections warns in words that contain `part`.
bool warns(const std::string& serving, const std::string& requests, std::string_view part) {
  const Scenario s = read_scenario(Config::from_text("name: test\ncluster: {node: DGX-H100, nodes: 1}\n"
                                                     "model: {architecture: olmoe-1b-7b}\n"
                                                     "parallelism: {attention_tp: 8}\n"
                                                     "dispatch: {}\n"
                                                     "policy: contiguous\n"
                                                     "loads: {kind: uniform}\nplan_loads: {kind: uniform}\n"
                                                     "serving: {" +
                                                         serving + "}\nrequests: {" + requests + "}\n",
                                                     "test.yaml"),
                                   {});
  const RunResult run = run_policy(s, s.policies.front(), {});
  return std::ranges::any_of(run.warnings, [&](const std::string& w) { return w.find(part) != std::string::npos; });
}

}  // namespace

// Ten requests at once decode together, all but at the end.
TEST_CASE("a run warns of decode steps that exceed the captured sizes") {
  const std::string ten = "kind: closed_loop, concurrency: 10, count: 10, input_tokens: 20, output_tokens: 50";
  const auto graphs = [&](const char* largest) {
    return warns(
        std::string("engine: trtllm_1_x, cuda_graph_padding_enabled: true, cuda_graph_max_batch_size: ") + largest, ten,
        "outside CUDA graphs, kernel by kernel: graphs are captured for up to 8 tokens a DP rank");
  };
  CHECK(graphs("8"));
  CHECK_FALSE(graphs("16"));
}

// Answers of 200 tokens take longer than a millisecond, and less than 1,000 seconds.
TEST_CASE("a run warns of conversations that answers lengthen") {
  const auto sessions = [](const char* think_time) {
    return warns("engine: sglang_0_5",
                 std::string("kind: sessions, session_rate: 5/s, turns: 4, max_context: 4000, count: 40, "
                             "input_tokens: 50, output_tokens: 200, think_time: ") +
                     think_time,
                 "of the turns waited for the answer before them");
  };
  CHECK(sessions("1ms"));
  CHECK_FALSE(sessions("1000s"));
}

// Steady after 4 x 4 turns x think_time: 16 ms and 16,000 s. 40 turns of 5 x 4 a second come in 2 s or, before second turns are due,
// in 8 s.
TEST_CASE("a run warns of conversations that end before as many are open as later") {
  const auto sessions = [](const char* think_time) {
    return warns("engine: sglang_0_5",
                 std::string("kind: sessions, session_rate: 5/s, turns: 4, max_context: 4000, count: 40, "
                             "input_tokens: 50, output_tokens: 2, think_time: ") +
                     think_time,
                 "before as many conversations are open as later");
  };
  CHECK(sessions("1000s"));
  CHECK_FALSE(sessions("1ms"));
}

}  // namespace epsim
