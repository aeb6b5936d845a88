// Planning again inside a run: what it waits for, what it moves, what it gains, and that it is accounted for.
#include "sim/cluster/rebalancer.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <numeric>
#include <string>

#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/rebalance_options.h"
#include "sim/scheduler/engines.h"
#include "tests/support/errors.h"
#include "traces/requests/read_requests.h"

using namespace epsim;

namespace {

// OLMoE on two nodes of 8, about 100 steps back to back. Plans start from equal loads.
constexpr const char* kHot = "{kind: imbalance, pattern: hot_rank, gpus: 16, factor: 5}";
constexpr const char* kEven = "{kind: imbalance, pattern: balanced}";
std::string rotating(int period) {
  return fmt::format("{{kind: imbalance, pattern: rotating_hotspot, gpus: 16, factor: 5, period: {}}}", period);
}

Scenario rule_scenario(const std::string& entry, const std::string& loads = kHot, const std::string& more = "",
                       const std::string& plan_loads = "{kind: uniform}") {
  return read_scenario(
      Config::from_text(
          fmt::format(
              "name: rebalancing\nseed: 5\ncluster: {{node: p4de.24xlarge, nodes: 2}}\n"
              "model: {{architecture: olmoe-1b-7b}}\nparallelism: {{attention_tp: 8}}\n"
              "dispatch: {{transport: nccl_p2p}}\nmemory: {{static_fraction: 0.8, num_gpu_blocks: 100000}}\n"
              "serving: {{engine: sglang_0_4_8, chunked_prefill_size: 2048}}\n"
              "requests: {{kind: constant, rate: 1000000000/s, count: 200, input_tokens: 1500, output_tokens: 20}}\n"
              "loads: {}\nplan_loads: {}\npolicies: {{tested: {}}}\n{}",
              loads, plan_loads, entry, more),
          "rebalancing.yaml"),
      {"tested"});
}

RunResult run_rule(const std::string& entry, const std::string& loads = kHot, const std::string& more = "") {
  const Scenario s = rule_scenario(entry, loads, more);
  return run_policy(s, s.policies.front(), {});
}

Ticks part(const RunResult& run, LayerPart which) {
  return to_ticks(run.time.by_part[static_cast<std::size_t>(which)]);
}

}  // namespace

TEST_CASE("a rule that never asks changes nothing but for the buffer") {
  const RunResult plain = run_rule("{kind: eplb}"), never = run_rule("{kind: eplb, rebalance: {rule: never}}");
  CHECK_FALSE(plain.rebalance.active);
  CHECK(never.rebalance.active);
  CHECK(never.rebalance.events.empty());
  CHECK(never.rebalance.gained == Ticks{});
  CHECK(never.fingerprint == plain.fingerprint);
  CHECK(never.detail.gpu_load == plain.detail.gpu_load);
  // EPLB has 5 experts a GPU and layer; OLMoE's have three matrices of 2048 x 1024 in bf16.
  const auto item = std::find_if(never.memory.items.begin(), never.memory.items.end(),
                                 [](const MemoryItem& i) { return i.name == "migration buffer"; });
  REQUIRE(item != never.memory.items.end());
  CHECK(item->size == Bytes(5 * 3.0 * 2048 * 1024 * 2));
}

TEST_CASE("sync: hosts take the engine's time for each layer that moves, as published pauses say") {
  const auto moving = [](const std::string& more) {
    const RunResult r = run_rule("{kind: eplb, rebalance: {rule: every, steps: 10" + more + "}}");
    return r.rebalance.events.at(0).moving;
  };
  const Ticks wire = moving(", layer_time: 0s");
  // OLMoE has 16 MoE layers, all of which move. SGLang: 16.5 ms each (issue 7879: about 1 s for DeepSeek's 58).
  CHECK(moving("") - wire == 16 * to_ticks(Seconds(16.5e-3)));
  CHECK(moving(", layer_time: 1ms") - wire == 16 * to_ticks(Seconds(1e-3)));
  test::check_contains(test::error_of<InputError>([] {
                         run_rule("{kind: eplb, rebalance: {rule: every, mode: async, layer_time: 1ms}}");
                       }).what(),
                       {"layer_time", "async"});
}

TEST_CASE("sync: the next step waits for the plan and then for the weights, to the picosecond") {
  const RunResult r = run_rule("{kind: eplb, rebalance: {rule: every, steps: 10, planning_time: 2ms}}");
  REQUIRE(r.steps > 30);
  const auto& events = r.rebalance.events;
  CHECK(std::ssize(events) == r.steps / 10);
  const RebalanceEvent& first = events.front();
  CHECK(first.step == 10);
  CHECK(first.outcome == RebalanceOutcome::kTaken);
  CHECK(first.planning == to_ticks(Seconds(0.002)));
  CHECK(first.moving == first.transfer);
  CHECK(first.slowed == Ticks{});
  CHECK(first.in_effect == first.at + first.planning + first.moving);  // the step that waited runs with the new plan
  CHECK(first.moved == Bytes(3.0 * 2048 * 1024 * 2) * static_cast<double>(first.moved_copies));
  // Not faster than all ports (300 GB/s a GPU) and all NICs (50 GB/s a node) at once.
  CHECK(to_seconds(first.moving) > first.moved / BytesPerSecond(16 * 300e9 + 2 * 50e9));
  CHECK(first.planned > first.balancedness);
  CHECK(first.paid());
  const RebalanceEvent sum = r.rebalance.sum();
  CHECK(part(r, LayerPart::kPlanning) == sum.planning);
  CHECK(part(r, LayerPart::kMigration) == sum.moving);
  // The load stays as it is, so every later plan is the same.
  CHECK(r.rebalance.count(RebalanceOutcome::kTaken) == 1);
  CHECK(r.rebalance.count(RebalanceOutcome::kUnchanged) == std::ssize(events) - 1);
  // All requests are there from the start, so steps have the same batches whatever they take: a run that keeps its
  // first plan takes longer by what was gained, less what was lost.
  const RunResult never = run_rule("{kind: eplb, rebalance: {rule: never}}");
  CHECK(never.end == r.end + r.rebalance.gained - sum.lost());
  CHECK(r.rebalance.gained == first.gained);
  CHECK(r.rebalance.gained > Ticks{});
}

TEST_CASE("sync: chunks of layers wait in turn, and take the plan in turn") {
  const std::string rule = "rule: every, steps: 10, planning_time: 2ms";
  const RebalanceEvent whole = run_rule("{kind: eplb, rebalance: {" + rule + "}}").rebalance.events.front(),
                       parts = run_rule("{kind: eplb, rebalance: {" + rule + ", layers_per_chunk: 4}}")
                                   .rebalance.events.front();
  CHECK(parts.moving == whole.moving);
  CHECK(parts.moved_copies == whole.moved_copies);
  CHECK(parts.in_effect > whole.in_effect);  // 16 layers: four steps wait, the fourth has all of them
  CHECK(parts.gained < whole.gained);
}

TEST_CASE("async: a buffer for one layer lets one switch in a step") {
  const auto first = [](const std::string& more) {
    return run_rule("{kind: eplb, rebalance: {rule: every, steps: 10, planning_time: 0s, mode: async" + more + "}}")
        .rebalance.events.front();
  };
  const RebalanceEvent all = first(""), one = first(", layers_per_chunk: 1"), whole = first(", layers_per_chunk: 16");
  CHECK(whole.in_effect == all.in_effect);
  CHECK(one.in_effect > all.in_effect);
  CHECK(one.moved_copies == all.moved_copies);
  // All of the 16 layers move, one in each step; steps take over 10 ms.
  CHECK(one.in_effect - one.at > to_ticks(Seconds(16 * 0.010)));
}

TEST_CASE("what a plan is made from, and how many layers switch in a step, is the engine's") {
  const auto options = [](const char* engine, const std::string& entry) {
    return read_rebalance(Config::from_text("{" + entry + "}", "entry").root(), find_engine(engine));
  };
  // SGLang's recorder is emptied at each look; vLLM's window is of 1000 steps.
  CHECK(options("sglang_0_5", "rule: threshold, steps: 200").window == 200);
  CHECK(options("sglang_0_5", "rule: never").window == 1000);
  CHECK(options("sglang_0_5", "rule: threshold, steps: 200, window: 50").window == 50);
  CHECK(options("vllm_0_14", "rule: every, steps: 200").window == 1000);
  CHECK(options("vllm_0_14", "rule: every, mode: async").layers_per_chunk == 1);
  CHECK(options("vllm_0_14", "rule: every").layers_per_chunk == 0);
  CHECK(options("sglang_0_5", "rule: every, mode: async").layers_per_chunk == 0);
}

TEST_CASE("a step after a wait that a returning GPU cut short is told when that was") {
  static constexpr Ticks kBack = std::chrono::milliseconds(300);
  struct LastWait final : StepRecorder {
    void begin_step(const StepStart& s) override {
      if (s.waited.total.count() > 0 && s.waited_since < kBack) {
        since = s.waited_since, until = since + to_ticks(s.waited.total), start = s.start;
      }
    }
    void span(const StepSpan&) override {}
    void exchange(const StepExchange&) override {}
    void end_step(Ticks, const StepCost&) override {}
    Ticks since{}, until{}, start{};
  } told;
  const std::string text =
      "name: back\nseed: 2\ncluster: {node: DGX-H200, nodes: 2}\nmodel: {architecture: olmoe-1b-7b}\n"
      "parallelism: {attention_tp: 2}\ndispatch: {transport: nccl_p2p}\nmemory: {static_fraction: 0.5}\n"
      "requests: {kind: constant, rate: 1000/s, count: 100, input_tokens: 2048, output_tokens: 8}\n"
      "loads: {kind: imbalance, pattern: hot_rank, gpus: 16, factor: 5}\nplan_loads: {kind: uniform}\n"
      "faults: [{at: 1ms, until: 300ms, gpu: 3, lost: true}]\n"
      "deployment: {after_loss: replan, reload_rate: 10GB/s}\n"
      "policies: {tested: {kind: eplb, num_redundant_experts: 64, avoid_duplicates: true, "
      "rebalance: {rule: every, steps: 4, window: 4, planning_time: 1ms, layer_time: 20ms}}}\n";
  const Scenario s = read_scenario(Config::from_text(text, "back.yaml"), {"tested"});
  RunControl control;
  control.recorder = &told;
  const RunResult r = run_policy(s, s.policies.front(), control);
  const RebalanceEvent& cut = r.rebalance.events.front();
  REQUIRE(cut.outcome == RebalanceOutcome::kCutShort);
  CHECK(told.since == cut.at);
  CHECK(told.until == cut.at + cut.planning + cut.moving);
  CHECK(told.until <= kBack);  // then the instance stands still, for the GPU that is back
  CHECK(told.start > kBack);
}

TEST_CASE("async: nobody waits, steps beside transfers take longer, and idle links move weights for nothing") {
  const std::string entry =
      "{kind: eplb, rebalance: {rule: every, steps: 10, planning_time: 2ms, mode: async, link_share: 0.4}}";
  const RunResult r = run_rule(entry),
                  waiting = run_rule("{kind: eplb, rebalance: {rule: every, steps: 10, planning_time: 2ms}}");
  const RebalanceEvent& e = r.rebalance.events.front();
  CHECK(e.planning == Ticks{});
  CHECK(e.moving == Ticks{});
  CHECK(e.slowed > Ticks{});
  CHECK(e.slowed < e.transfer);  // kernels leave the links to the weights
  CHECK(part(r, LayerPart::kMigration) == r.rebalance.sum().slowed);
  CHECK(part(r, LayerPart::kPlanning) == Ticks{});
  CHECK(e.in_effect > e.at + e.transfer);
  CHECK(e.paid());
  CHECK(e.moved_copies == waiting.rebalance.events.front().moved_copies);
  // A larger share of the links: in effect earlier, or steps slowed more; never neither.
  const RebalanceEvent greedy = run_rule(
                                    "{kind: eplb, rebalance: {rule: every, steps: 10, planning_time: 2ms, mode: async, "
                                    "link_share: 0.9}}")
                                    .rebalance.events.front();
  CHECK((greedy.in_effect < e.in_effect || greedy.slowed > e.slowed));
  // One request a second: steps are rare, and whatever moves does so between them.
  const std::string slow = "requests: {kind: constant, rate: 1/s, count: 12, input_tokens: 100, output_tokens: 1}\n";
  Config config = Config::from_text(slow, "slow.yaml");
  Scenario s = rule_scenario("{kind: eplb, rebalance: {rule: every, steps: 5, planning_time: 2ms, mode: async}}");
  ConfigReader requests = config.root().section("requests");
  s.requests = read_requests(requests, s.seed);
  s.serving.overlap_schedule = false;  // no decode too many after the prompt, during which weights would move
  const RunResult idle = run_policy(s, s.policies.front(), {});
  CHECK(idle.rebalance.sum().lost() == Ticks{});
  CHECK(idle.rebalance.events.front().moved_copies > 0);
  CHECK(idle.rebalance.idle_moving == idle.rebalance.sum().transfer);
}

TEST_CASE("a hotspot that moves on (W6) is worth following; one that moves faster than the window is not") {
  const std::string entry =
      "{kind: eplb, rebalance: {rule: threshold, steps: 5, window: 5, balancedness: 0.8, planning_time: 1ms, "
      "layer_time: 0s}}";
  const RunResult follows = run_rule(entry, rotating(40)),
                  still = run_rule("{kind: eplb, rebalance: {rule: never}}", rotating(40));
  CHECK(follows.rebalance.count(RebalanceOutcome::kTaken) >= 2);
  CHECK(follows.rebalance.gained > follows.rebalance.sum().lost());
  CHECK(follows.end < still.end);
  // A plan knows the steps before it alone: when the hotspot has moved on by every look, plans look good and are not.
  const RunResult late =
      run_rule("{kind: eplb, rebalance: {rule: every, steps: 10, window: 10, planning_time: 1ms}}", rotating(10));
  for (const RebalanceEvent& e : late.rebalance.events) {
    CHECK(e.planned > 0.9);
    CHECK_FALSE(e.paid());
  }
  CHECK(late.end > run_rule("{kind: eplb, rebalance: {rule: never}}", rotating(10)).end);
}

TEST_CASE("on a load that stays even no rule that looks at it moves anything") {
  for (const char* rule : {"threshold, steps: 5, balancedness: 0.9", "gain, steps: 5, horizon: 100000"}) {
    const RunResult r = run_rule(fmt::format("{{kind: eplb, rebalance: {{rule: {}}}}}", rule), kEven);
    CHECK(r.rebalance.count(RebalanceOutcome::kTaken) == 0);
    CHECK(r.rebalance.sum().moved_copies == 0);
    CHECK(r.rebalance.gained == Ticks{});
  }
  CHECK(run_rule("{kind: eplb, rebalance: {rule: threshold, steps: 5, balancedness: 0.9}}", kEven)
            .rebalance.events.empty());
}

TEST_CASE("a plan that costs more than it saves is turned down, and its planning is still paid for") {
  const RunResult dear = run_rule("{kind: eplb, rebalance: {rule: gain, steps: 10, planning_time: 5s}}");
  REQUIRE_FALSE(dear.rebalance.events.empty());
  CHECK(dear.rebalance.count(RebalanceOutcome::kTurnedDown) == std::ssize(dear.rebalance.events));
  CHECK(dear.rebalance.sum().moved_copies == 0);
  CHECK(dear.rebalance.sum().planning >= to_ticks(Seconds(5)));
  const RunResult cheap =
      run_rule("{kind: eplb, rebalance: {rule: gain, steps: 10, planning_time: 1us, horizon: 1000000}}");
  CHECK(cheap.rebalance.events.front().outcome == RebalanceOutcome::kTaken);
}

TEST_CASE("the same on any thread, played by events, with copies by source and in every instance") {
  const std::string entry = "{kind: eplb, rebalance: {rule: every, steps: 10, planning_time: 2ms, mode: async}}";
  const RunResult here = run_rule(entry, rotating(20));
  const RunResult there = std::async(std::launch::async, [&] { return run_rule(entry, rotating(20)); }).get();
  CHECK(here.fingerprint == there.fingerprint);
  CHECK(here.rebalance.gained == there.rebalance.gained);
  CHECK(run_rule(entry, rotating(20), "execution: {mode: event}\n").fingerprint == here.fingerprint);
  const RunResult halves = run_rule(entry, rotating(20), "execution: {overlap: two_batch}\n");
  CHECK(halves.rebalance.sum().slowed > Ticks{});
  const RunResult by_source = run_rule(
      "{kind: eplb, replica_choice: {kind: sglang_static}, rebalance: {rule: every, steps: "
      "10, layers_per_chunk: 3}}",
      rotating(20));
  CHECK(by_source.rebalance.count(RebalanceOutcome::kTaken) >= 1);
  const RunResult two = run_rule(entry, rotating(20), "deployment: {instances: 2}\n");
  CHECK(two.completed == 200);
  CHECK(two.rebalance.events.front().instance == 0);
  CHECK(two.rebalance.events.back().instance == 1);
  CHECK(
      run_rule(entry, rotating(20), "faults: [{at: 100ms, node: 1, link_speed: 0.5}]\n").rebalance.sum().moved_copies >
      0);
}

namespace {

// SGLang's counts of 16 layers of 64 experts: in one layer, expert 0 has a ninth of the load.
std::string counts_with_hot(int hot) {
  std::string out;
  for (int l = 0; l < 16; ++l) {
    out += fmt::format("{}[{}", l == 0 ? "{\"logical_count\": [" : ", ", l == hot ? 8000 : 1000);
    for (int e = 1; e < 64; ++e) {
      out += ", 1000";
    }
    out += "]";
  }
  return out + "]}";
}

RunResult run_with_hot(int served, int planned) {
  const test::TempDir dir;
  write_file_atomically(dir.path() / "served.json", counts_with_hot(served));
  write_file_atomically(dir.path() / "planned.json", counts_with_hot(planned));
  const auto counts = [&](const char* file) {
    return fmt::format("{{kind: sglang_counts, path: {}, variation: none}}", (dir.path() / file).string());
  };
  const Scenario s = rule_scenario("{kind: craft, replication_factor: 1, rebalance: {rule: every, steps: 20}}",
                                   counts("served.json"), "", counts("planned.json"));
  return run_policy(s, s.policies.front(), {});
}

}  // namespace

TEST_CASE("copies move from a layer to another that switches earlier: the one that gives them up goes first") {
  for (const int planned : {15, 0}) {
    const RunResult r = run_with_hot(15 - planned, planned);
    REQUIRE(!r.rebalance.events.empty());
    CHECK(r.rebalance.events.front().outcome == RebalanceOutcome::kTaken);
    CHECK(r.rebalance.events.front().planned > 0.95);
    CHECK(r.rebalance.gained > Ticks{});
  }
}

TEST_CASE("a policy that chooses how many copies there are plans again with those that memory was left for") {
  // On equal loads CRAFT plans none; on hot ones it would want some.
  const RunResult r = run_rule("{kind: craft, rebalance: {rule: every, steps: 10}}");
  REQUIRE(!r.rebalance.events.empty());
  CHECK(r.rebalance.count(RebalanceOutcome::kDidNotFit) == 0);
  CHECK(r.rebalance.events.front().outcome == RebalanceOutcome::kTaken);  // experts alone change places
}

TEST_CASE("a policy that groups experts plans again with what the first plan knew of them") {
  const Scenario s = read_scenario(
      Config::from_text(
          "name: grouped\nseed: 5\ncluster: {node: p4de.24xlarge, nodes: 2}\nmodel: {architecture: olmoe-1b-7b}\n"
          "parallelism: {attention_tp: 8}\ndispatch: {transport: nccl_p2p}\nmemory: {static_fraction: 0.8}\n"
          "serving: {engine: sglang_0_4_8, chunked_prefill_size: 2048}\n"
          "requests: {kind: constant, rate: 1000000000/s, count: 200, input_tokens: 1500, output_tokens: 20}\n"
          "loads: {kind: model, preset: olmoe}\n"
          "plan_loads: {kind: model, preset: olmoe, steps: 8, affinity_tokens: 500}\n"
          "policies: {tested: {kind: grace, rebalance: {rule: every, steps: 20}}}\n",
          "grouped.yaml"),
      {"tested"});
  const RunResult r = run_policy(s, s.policies.front(), {});
  // Groups are as large as they come out: with other loads a GPU may need more memory than the first plan left it.
  REQUIRE(!r.rebalance.events.empty());
  CHECK(r.rebalance.count(RebalanceOutcome::kTaken) + r.rebalance.count(RebalanceOutcome::kDidNotFit) ==
        std::ssize(r.rebalance.events));
  CHECK(r.rebalance.count(RebalanceOutcome::kDidNotFit) > 0);
}

TEST_CASE("what cannot plan again, and what is misspelt, is refused") {
  const auto problem = [](const std::string& entry) {
    return test::error_of<InputError>([&] { run_rule(entry); }).problem;
  };
  for (const char* kind : {"oracle", "perfect", "libra"}) {
    test::check_contains(problem(fmt::format("{{kind: {}, rebalance: {{rule: every}}}}", kind)), {"plan again"});
  }
  test::check_contains(problem("{kind: base, rebalance: {rule: evry}}"), {"every"});
  test::check_contains(problem("{kind: base, rebalance: {rule: every, mode: async, link_share: 1}}"), {"below 1"});
  test::check_contains(problem("{kind: base, rebalance: {rule: every, link_share: 0.5}}"), {"mode sync"});
  test::check_contains(problem("{kind: base, rebalance: {rule: every, move_efficiency: 1.5}}"), {"at most 1"});
  CHECK_THROWS_AS(run_rule("{kind: base, rebalance: {rule: every, window: 0}}"), InputError);
  CHECK_THROWS_AS(run_rule("{kind: base, rebalance: {rule: every, steps: 0}}"), InputError);
  CHECK_THROWS_AS(run_rule("{kind: base, rebalance: {rule: every, planning_time: -1s}}"), InputError);
  CHECK_THROWS_AS(run_rule("{kind: base, rebalance: 5}"), InputError);
  CHECK_THROWS_AS(run_rule("{kind: grace, rebalance: {rule: every}}"), InputError);  // needs which experts go together
}

TEST_CASE("the window holds the latest steps, in assignments") {
  LoadHistory history(1, 2, 2);
  StepLoads loads;
  loads.resize(1, 1, 2);
  const auto step = [&](float first, std::int64_t tokens, double balancedness) {
    loads.row(0, 0)[0] = first;
    loads.row(0, 0)[1] = 1 - first;
    const std::vector<std::int64_t> by_rank{tokens / 2, tokens - tokens / 2};
    history.add(loads, by_rank, balancedness);
  };
  step(1.0F, 100, 0.2);
  CHECK(history.window(false).layer(0)[0] == 100);
  CHECK(history.balancedness(5) == 0.2);
  step(0.5F, 10, 0.4);
  step(0.25F, 40, 0.8);
  CHECK(history.window(false).layer(0)[0] == 5 + 10);  // the first step has left
  CHECK(history.window(false).layer(0)[1] == 5 + 30);
  CHECK(history.window(false).batches() == 0);
  const LoadWindow by_steps = history.window(true);
  CHECK(by_steps.layer(0)[1] == 5 + 30);
  REQUIRE(by_steps.batches() == 2);
  CHECK(by_steps.batches_of(0, 0)[0] == 5);  // the oldest first
  CHECK(by_steps.batches_of(0, 0)[1] == 10);
  CHECK(history.balancedness(1) == 0.8);
  CHECK(history.balancedness(9) == doctest::Approx(0.6));
}
