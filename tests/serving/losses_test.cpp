// Hardware that goes for good: what happens to requests, worked out by hand and on random fleets.
#include "sim/serving/losses.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "sim/core/error.h"
#include "sim/serving/deployment_run.h"
#include "sim/serving/run_policy.h"
#include "sim/serving/simulate.h"
#include "tests/serving/random_fleet.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

using test::FixedPricer;
using test::kMs;
using test::trace_of;

InstanceSpec instance_of(StepPricer& pricer, int ranks, InstanceRole role = InstanceRole::kWhole) {
  InstanceSpec spec;
  spec.options = test::one_rank(100);
  spec.options.dp_ranks = ranks;
  spec.options.role = role;
  spec.options.router = Router::kRoundRobin;
  spec.pricer = &pricer;
  spec.on_loss = [](std::size_t) {};
  spec.transfer_time = [](std::int64_t tokens, double speed) {
    return Seconds{1.0 / speed * 1e-3 * static_cast<double>(tokens)};
  };
  return spec;
}

}  // namespace

TEST_CASE("a lost rank's requests start anew on the ranks that are left, after the recovery") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 2)};
  specs[0].losses = {{.at = 15 * kMs, .recovery = 100 * kMs, .ranks = {1}}};
  // The step under way ends at 20: A and B have two of four tokens. Until 120 nothing runs; then A decodes beside B's
  // prompt on rank 0. A ends at 140, B has its first token at 130 and its fourth at 160.
  const RunResult run = simulate(trace_of({{0, 5, 4}, {0, 5, 4}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 2);
  CHECK(run.requests[0].finished == 140 * kMs);
  CHECK(run.requests[0].retries == 0);
  CHECK(run.requests[1].retries == 1);
  CHECK(run.requests[1].rank == 0);
  CHECK(run.requests[1].first_token == 130 * kMs);
  CHECK(run.requests[1].finished == 160 * kMs);
  CHECK(run.latency.itl_s.count == 3 + 3 + 1);  // and the gap that B had before
  CHECK(run.latency.itl_s.max == doctest::Approx(0.110));
  CHECK(run.end == 160 * kMs);
}

TEST_CASE("without a retry, or with nobody left, requests fail, and so do those that come later") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 2)};
  specs[0].losses = {{.at = 15 * kMs, .recovery = {}, .ranks = {1}}};
  const RunResult once = simulate(trace_of({{0, 5, 4}, {0, 5, 4}}), specs, Router::kRoundRobin, {}, 0);
  CHECK(once.completed == 1);
  CHECK(once.failed == 1);
  CHECK(once.requests[1].state == RequestState::kFailed);
  CHECK(once.requests[1].finished == 20 * kMs);
  specs[0].losses[0].fatal = true;
  const RunResult all = simulate(trace_of({{0, 5, 4}, {0, 5, 4}, {50, 5, 4}}), specs, Router::kRoundRobin, {}, 3);
  CHECK(all.completed == 0);
  CHECK(all.failed == 3);
  CHECK(all.requests[2].finished == 50 * kMs);
  CHECK(all.requests[2].retries == 0);
  // A loss after everything has ended concerns nobody.
  specs[0].losses[0].at = 5000 * kMs;
  CHECK(simulate(trace_of({{0, 5, 4}}), specs, Router::kRoundRobin, {}).end == 40 * kMs);
}

TEST_CASE("a lost instance is avoided, and its requests go to another") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 1), instance_of(pricer, 1)};
  specs[0].losses = {{.at = 15 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult run =
      simulate(trace_of({{0, 5, 4}, {0, 5, 4}, {30, 5, 1}, {30, 5, 1}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 4);
  for (const RequestRecord& r : run.requests) {
    CHECK(r.rank == 1);
  }
  CHECK(run.requests[0].retries == 1);
  CHECK(run.requests[1].retries == 0);
}

TEST_CASE("prefill and decode apart: a request that loses either end starts anew, and nobody prefills for no decoder") {
  FixedPricer pricer(10_ms);
  const auto prefill = instance_of(pricer, 1, InstanceRole::kPrefill),
             decode = instance_of(pricer, 1, InstanceRole::kDecode);
  std::vector<InstanceSpec> specs = {prefill, decode, decode};
  // A's prompt of 30 tokens ends at 10 and travels until 40, when its decode instance is gone since 25. It is computed
  // again from 25 to 35 and travels to the other one until 70, behind its first transfer, which holds the lane to 40.
  specs[1].losses = {{.at = 25 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult run = simulate(trace_of({{0, 30, 3}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 1);
  CHECK(run.requests[0].first_token == 70 * kMs);
  CHECK(run.requests[0].finished == 90 * kMs);
  specs[2].losses = {{.at = 80 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult none = simulate(trace_of({{0, 30, 30}, {100, 10, 2}}), specs, Router::kRoundRobin, {}, 5);
  CHECK(none.failed == 2);
  // The prefill instance goes while the prompt is on its way: nobody is left to compute it again.
  specs = {prefill, decode};
  specs[0].losses = {{.at = 25 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult cut = simulate(trace_of({{0, 30, 3}}), specs, Router::kRoundRobin, {}, 5);
  CHECK(cut.failed == 1);
  CHECK(cut.requests[0].finished == 25 * kMs);
  // One that had arrived by then is decoded to its end.
  specs[0].losses[0].at = 45 * kMs;
  CHECK(simulate(trace_of({{0, 30, 3}}), specs, Router::kRoundRobin, {}, 5).completed == 1);
}

TEST_CASE("random fleets that lose hardware: every request completes or fails, and everything adds up") {
  test::FleetSums sums;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CAPTURE(i);
    CHECK(test::check_random_losses(i, sums) == "");
  }
  CHECK(sums.completed > 5000);
  CHECK(sums.failed > 1000);
  CHECK(sums.retries > 500);
}

TEST_CASE("what is left of a plan") {
  const PlacementPlan plan{.policy = "hand", .experts = 2, .gpus = 2, .layers = {uniform_layer({0, 1, 1, 0}, 2)}};
  const std::optional<PlacementPlan> left = without_gpus(plan, {true, false});
  REQUIRE(left.has_value());
  CHECK(left->layers[0].slots == std::vector<int>{1, 0});
  CHECK(left->layers[0].first_slot == std::vector<int>{0, 0, 2});
  const PlacementPlan bare{.policy = "hand", .experts = 2, .gpus = 2, .layers = {uniform_layer({0, 1}, 2)}};
  CHECK_FALSE(without_gpus(bare, {true, false}).has_value());
  const Parallelism parallelism{.gpus = 2, .attention_tp = 1};
  const std::vector<Fault> faults = {{.at = Ticks{9}, .first_gpu = 1, .lost = true}, {.at = Ticks{5}, .lost = true}};
  const InstanceLosses losses = losses_of(faults, plan, parallelism);
  REQUIRE(losses.losses.size() == 2);
  CHECK(losses.losses[0].at == Ticks{5});
  CHECK(losses.losses[0].ranks == std::vector<int>{0});
  CHECK_FALSE(losses.losses[0].fatal);
  CHECK(losses.losses[1].fatal);
  CHECK(losses_of(faults, plan, {.gpus = 2, .attention_tp = 2}).losses[0].fatal);  // the only rank spans both
}

namespace {

Scenario scenario(const std::string& more,
                  const std::string& policy = "{kind: eplb, num_redundant_experts: 64, avoid_duplicates: true}") {
  return read_scenario(
      Config::from_text(
          fmt::format(
              "name: losses\nseed: 2\ncluster: {{node: DGX-H200, nodes: 2}}\nmodel: {{architecture: olmoe-1b-7b}}\n"
              "parallelism: {{attention_tp: 2}}\nmemory: {{static_fraction: 0.5}}\n"
              "serving: {{chunked_prefill_size: 2048}}\n"
              "requests: {{kind: constant, rate: 1000/s, count: 200, input_tokens: 2048, output_tokens: 8}}\n"
              "loads: {{kind: uniform}}\nplan_loads: {{kind: uniform}}\npolicies: {{tested: {}}}\n{}",
              policy, more),
          "losses.yaml"),
      {"tested"});
}

RunResult run(const std::string& more,
              const std::string& policy = "{kind: eplb, num_redundant_experts: 64, avoid_duplicates: true}") {
  const Scenario s = scenario(more, policy);
  return run_policy(s, s.policies[0], {});
}

std::string why(const std::string& more) {
  const InputError e = test::error_of<InputError>([&] { scenario(more); });
  return e.place.key + ": " + e.problem;
}

}  // namespace

TEST_CASE("a lost GPU: its rank goes, the copies that are left serve, and the run is slower") {
  const RunResult whole = run(""), less = run("faults: [{at: 20ms, gpu: 3, lost: true, recovery: 5ms}]\n");
  CHECK(whole.completed == 200);
  CHECK(less.completed == 200);
  CHECK(less.end > whole.end);
  std::int64_t retries = 0;
  for (const RequestRecord& r : less.requests) {
    retries += r.retries;
    CHECK((r.finished < Ticks{20 * kMs} || r.rank != 1));  // GPUs 2 and 3 are rank 1
  }
  CHECK(retries > 0);
  // GPU 3 computes nothing from then on.
  double here = 0, elsewhere = 0;
  for (std::size_t l = 0; l < less.detail.layers.size(); ++l) {
    here += less.detail.gpu_load[l * 16 + 3];
    elsewhere += less.detail.gpu_load[l * 16 + 2];
  }
  CHECK(here < elsewhere);
  CHECK(run("faults: [{at: 20ms, gpu: 3, lost: true, recovery: 5ms}]\nexecution: {mode: event}\n").fingerprint ==
        less.fingerprint);
  CHECK(run("faults: [{at: 20ms, gpu: 3, lost: true}]\n",
            "{kind: eplb, num_redundant_experts: 64, avoid_duplicates: true, replica_choice: {kind: sglang_static}}")
            .completed == 200);
}

TEST_CASE("without copies a lost GPU takes the instance, and another instance serves its requests") {
  const RunResult bare = run("faults: [{at: 20ms, gpu: 3, lost: true}]\n", "{kind: base}");
  CHECK(bare.failed > 0);
  CHECK(bare.completed + bare.failed == 200);
  const std::string two = "deployment: {instances: 2, retry_limit: 1}\n";
  CHECK(run(two + "faults: [{at: 20ms, instance: 0, gpu: 3, lost: true}]\n", "{kind: base}").completed == 200);
  CHECK(run(two + "faults: [{at: 20ms, instance: 1, lost: true}]\n", "{kind: libra}").completed == 200);
  const std::string apart = "deployment: {prefill: {instances: 2}, decode: {instances: 2}}\n";
  for (int i = 0; i < 4; ++i) {
    CHECK(run(apart + fmt::format("faults: [{{at: 20ms, instance: {}, lost: true}}]\n", i)).completed == 200);
  }
  CHECK(run(two + "faults: [{at: 0s, instance: 1, node: 1, speed: 0.5}]\n").end > run(two).end);
}

TEST_CASE("a NIC: slowed it holds up its own GPUs, lost the node's others carry its traffic") {
  const auto node = [] {
    ClusterSpec out;
    out.nodes = 2;
    out.node.gpus = 4;
    out.node.nics = 2;
    out.node.nic_rate = 10_GBps;
    return out;
  }();
  const Fault slow{.first_gpu = 4, .gpus = 4, .link_speed = 0.25, .nic = 1};
  Fault lost = slow;
  lost.lost = true;
  lost.until = Ticks{9};
  using Speeds = std::vector<double>;
  CHECK(conditions_at(std::vector{slow}, Ticks{}, node).nic_speed == Speeds{1, 1, 1, 1, 1, 1, 0.25, 0.25});
  CHECK(conditions_at(std::vector{lost}, Ticks{}, node).nic_speed == Speeds{1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5});
  CHECK(conditions_at(std::vector{lost}, Ticks{9}, node).nic_speed.empty());
  const Ticks whole = run("").end;
  CHECK(run("faults: [{at: 0s, node: 1, nic: 2, link_speed: 0.2}]\n").end > whole);
  const Ticks one = run("faults: [{at: 0s, node: 1, nic: 2, lost: true}]\n").end;
  CHECK(one > whole);
  CHECK(run("faults: [{at: 0s, node: 1, nic: 2, lost: true}, {at: 0s, node: 1, nic: 3, lost: true}]\n").end > one);
  const std::string fabric = "network: {model: max_min}\n";
  CHECK(run(fabric + "faults: [{at: 0s, node: 1, nic: 2, link_speed: 0.2}]\n").end > run(fabric).end);
  const std::string pairs = "execution: {sync: pairwise}\n";
  CHECK(run(pairs + "faults: [{at: 0s, node: 1, nic: 2, link_speed: 0.2}]\n").end > run(pairs).end);
}

TEST_CASE("prompts travel at the pace of the slower end's links") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 1, InstanceRole::kPrefill),
                                     instance_of(pricer, 1, InstanceRole::kDecode)};
  // A prompt of 30 tokens ends at 10 and takes 30 ms, or 120 at a quarter of the rate, whichever end has only that.
  const auto arrives = [&] {
    return simulate(trace_of({{0, 30, 2}}), specs, Router::kRoundRobin, {}).requests[0].first_token;
  };
  CHECK(arrives() == 40 * kMs);
  for (InstanceSpec& spec : specs) {
    spec.lane_speed = [](int lane, Ticks now) { return lane == 0 && now >= 10 * kMs ? 0.25 : 1.0; };
    CHECK(arrives() == 130 * kMs);
  }
  specs[0].lane_speed = {};
  CHECK(arrives() == 130 * kMs);
  // In a scenario: nodes of 4 ranks, so lanes, of 2 GPUs and their 2 NICs; NIC 2 of node 1 is GPU 10's.
  const std::string apart = "deployment: {prefill: {instances: 1}, decode: {instances: 1}}\n";
  const Scenario s = scenario(apart +
                              "faults: [{instance: 1, at: 1s, until: 2s, node: 1, nic: 2, link_speed: 0.5}, "
                              "{instance: 1, at: 1s, gpu: 15, link_speed: 0.25}]\n");
  const Scenario own = scenario_of(s, s.deployment.pools[1]);
  const KvLanes lanes = kv_lanes(own);
  REQUIRE(lanes.per_node == 4);
  const std::vector<Fault> faults = faults_of(s, 1);
  CHECK(lanes.speed(own, faults, 5, to_ticks(Seconds{1.5})) == 0.5);
  CHECK(lanes.speed(own, faults, 5, to_ticks(Seconds{2})) == 1.0);
  CHECK(lanes.speed(own, faults, 7, to_ticks(Seconds{3})) == 0.25);
  CHECK(lanes.speed(own, faults, 7, Ticks{}) == 1.0);
  CHECK(faults_of(s, 0).empty());
  const auto waits = [&](const std::string& more) { return run(apart + more).transfers.time; };
  const Seconds whole = waits("");
  CHECK(waits("faults: [{instance: 0, at: 0s, node: 0, link_speed: 0.1}]\n") > whole);
  CHECK(waits("faults: [{instance: 1, at: 0s, node: 0, nic: 3, lost: true}]\n") > whole);
}

TEST_CASE("losses that cannot be are refused, each with its reason") {
  test::check_contains(why("faults: [{at: -1s, gpu: 0, lost: true}]\n"), {"at"});
  test::check_contains(why("faults: [{at: 1s, gpu: 16, lost: true}]\n"), {"0 to 15"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, lost: true, until: 2s}]\n"), {"come back"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, lost: true, speed: 0.5}]\n"), {"no speed"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, speed: 0.5, recovery: 1s}]\n"), {"recovery"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, nic: 0, lost: true}]\n"), {"a `node`"});
  test::check_contains(why("faults: [{at: 1s, node: 1, nic: 99, lost: true}]\n"), {"NICs"});
  test::check_contains(why("faults: [{at: 1s, node: 1, nic: 1, speed: 0.5}]\n"), {"link_speed"});
  test::check_contains(why("faults: [{at: 1s, instance: 1, lost: true}]\n"), {"0 to 0"});
  test::check_contains(why("faults: [{at: 1s, node: 0, lost: true}, {at: 2s, node: 1, lost: true}]\n"), {"everything"});
  test::check_contains(why("faults: [{at: 1s, instance: 0, lost: true}]\n"), {"everything"});
  const std::string two = "deployment: {instances: 2}\n";
  test::check_contains(why(two + "faults: [{at: 1s, gpu: 1, lost: true}]\n"), {"names one of them"});
  test::check_contains(why("deployment: {prefill: {}, decode: {}}\nfaults: [{at: 1s, instance: 1, lost: true}]\n"),
                       {"decode instance"});
  std::string nics = "faults: [";
  for (int k = 0; k < 8; ++k) {
    nics += fmt::format("{}{{at: 1s, node: 1, nic: {}, lost: true}}", k > 0 ? ", " : "", k);
  }
  test::check_contains(why(nics + "]\n"), {"lose the node"});
  test::check_contains(why("deployment: {retry_limit: 2000}\n"), {"1000"});
  CHECK_THROWS_AS(run("faults: [{at: 1s, gpu: 1, lost: true}]\n", "{kind: eplb, rebalance: {rule: every}}"),
                  InputError);
}

}  // namespace epsim
