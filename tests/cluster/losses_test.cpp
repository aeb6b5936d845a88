// Hardware that goes for good: what happens to requests, worked out by hand and on random deployments.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/network/make_network.h"
#include "sim/cluster/expert_recovery.h"
#include "sim/cluster/hardware_change.h"
#include "sim/cluster/run_policy.h"
#include "sim/cluster/simulate.h"
#include "sim/core/error.h"
#include "sim/scenario/read_scenario.h"
#include "tests/cluster/random_deployment.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

using test::FixedPricer;
using test::kMs;
using test::trace_of;

InstanceSpec instance_of(InstanceModel& model, int ranks, InstanceRole role = InstanceRole::kWhole) {
  InstanceSpec spec;
  spec.options = test::one_rank(100);
  spec.options.dp_ranks = ranks;
  spec.options.role = role;
  spec.options.router = Router::kRoundRobin;
  spec.model = &model;
  spec.path = &test::kMsPerToken;
  return spec;
}

// Has no copy of some expert until 100 ms, and then makes copies for 5 ms.
class RecoversLate final : public FixedPricer {
 public:
  using FixedPricer::FixedPricer;
  std::optional<Ticks> recover(const HardwareChange& change) override {
    return change.at < 100 * kMs ? std::nullopt : std::optional(5 * kMs);
  }
};

// A lane 0 that has a quarter of its rate from 10 ms on.
class SlowingPath final : public KvPath {
 public:
  Seconds transfer_time(std::int64_t tokens, bool last, double share) const override {
    return test::kMsPerToken.transfer_time(tokens, last, share);
  }
  double share_left(int lane, Ticks now) const override { return lane == 0 && now >= 10 * kMs ? 0.25 : 1.0; }
};

}  // namespace

TEST_CASE("a lost rank's requests start anew on the ranks that are left, after the recovery") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 2)};
  specs[0].changes = {{.at = 15 * kMs, .recovery = 100 * kMs, .ranks = {1}}};
  // The step under way ends at 20: A and B have two of four tokens. Until 120 nothing runs; then A decodes beside B's
  // prompt on rank 0. A ends at 140, B has its first token at 130 and its fourth at 160.
  const RunResult run = simulate(trace_of({{0, 5, 4}, {0, 5, 4}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 2);
  CHECK(run.requests[0].finished == 140 * kMs);
  CHECK(run.requests.extras(0).retries == 0);
  CHECK(run.requests.extras(1).retries == 1);
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
  specs[0].changes = {{.at = 15 * kMs, .recovery = {}, .ranks = {1}}};
  const RunResult once = simulate(trace_of({{0, 5, 4}, {0, 5, 4}}), specs, Router::kRoundRobin, {}, 0);
  CHECK(once.completed == 1);
  CHECK(once.failed == 1);
  CHECK(once.requests[1].state == RequestState::kFailed);
  CHECK(once.requests[1].finished == 20 * kMs);
  specs[0].changes[0].fatal = true;
  const RunResult all = simulate(trace_of({{0, 5, 4}, {0, 5, 4}, {50, 5, 4}}), specs, Router::kRoundRobin, {}, 3);
  CHECK(all.completed == 0);
  CHECK(all.failed == 3);
  CHECK(all.requests[2].finished == 50 * kMs);
  CHECK(all.requests.extras(2).retries == 0);
  // A loss after everything has ended concerns nobody.
  specs[0].changes[0].at = 5000 * kMs;
  CHECK(simulate(trace_of({{0, 5, 4}}), specs, Router::kRoundRobin, {}).end == 40 * kMs);
}

TEST_CASE("a lost instance is avoided, and its requests go to another") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 1), instance_of(pricer, 1)};
  specs[0].changes = {{.at = 15 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult run =
      simulate(trace_of({{0, 5, 4}, {0, 5, 4}, {30, 5, 1}, {30, 5, 1}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 4);
  for (const RequestRecord& r : run.requests) {
    CHECK(r.rank == 1);
  }
  CHECK(run.requests.extras(0).retries == 1);
  CHECK(run.requests.extras(1).retries == 0);
}

TEST_CASE("prefill and decode apart: a request that loses either end starts anew, and nobody prefills for no decoder") {
  FixedPricer pricer(10_ms);
  const auto prefill = instance_of(pricer, 1, InstanceRole::kPrefill),
             decode = instance_of(pricer, 1, InstanceRole::kDecode);
  std::vector<InstanceSpec> specs = {prefill, decode, decode};
  // A's prompt of 30 tokens ends at 10 and travels until 40, when its decode instance is gone since 25. It is computed
  // again from 25 to 35 and travels to the other one until 70, behind its first transfer, which holds the lane to 40.
  specs[1].changes = {{.at = 25 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult run = simulate(trace_of({{0, 30, 3}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 1);
  CHECK(run.requests[0].first_token == 70 * kMs);
  CHECK(run.requests[0].finished == 90 * kMs);
  specs[2].changes = {{.at = 80 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult none = simulate(trace_of({{0, 30, 30}, {100, 10, 2}}), specs, Router::kRoundRobin, {}, 5);
  CHECK(none.failed == 2);
  // The prefill instance goes while the prompt is on its way: nobody is left to compute it again.
  specs = {prefill, decode};
  specs[0].changes = {{.at = 25 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult cut = simulate(trace_of({{0, 30, 3}}), specs, Router::kRoundRobin, {}, 5);
  CHECK(cut.failed == 1);
  CHECK(cut.requests[0].finished == 25 * kMs);
  // One that had arrived by then is decoded to its end.
  specs[0].changes[0].at = 45 * kMs;
  CHECK(simulate(trace_of({{0, 30, 3}}), specs, Router::kRoundRobin, {}, 5).completed == 1);
}

TEST_CASE("a prompt whose decode rank is lost between its chunks is computed to its end, and starts anew") {
  FixedPricer pricer(10_ms);
  const auto decode = instance_of(pricer, 1, InstanceRole::kDecode);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 1, InstanceRole::kPrefill), decode, decode};
  specs[0].options.token_budget = 10;
  specs[0].options.memory_first = true;
  // Chunks of 10, 10 and 5 tokens end at 10, 20 and 30. The first travels until 20, to a rank that is gone since 15. Anew
  // they end at 40, 50 and 60; the lane has the last from 60 to 65.
  specs[1].changes = {{.at = 15 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult run = simulate(trace_of({{0, 25, 2}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 1);
  CHECK(run.requests.extras(0).retries == 1);
  CHECK(run.requests[0].first_token == 65 * kMs);
  CHECK(run.transfers.count == 1);
  CHECK(run.transfers.tokens == 10 + 25);
}

TEST_CASE("a prompt that waits when the decode rank that has memory for it is lost starts anew at once") {
  FixedPricer pricer(10_ms, true);
  const auto decode = instance_of(pricer, 1, InstanceRole::kDecode);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 1, InstanceRole::kPrefill), decode, decode};
  specs[0].options.token_budget = 10;
  specs[0].options.memory_first = true;
  // Chunks of A end at 10 and 20, of B at 30. The second decode instance, which has memory for B, goes at 15.
  specs[2].changes = {{.at = 15 * kMs, .recovery = {}, .ranks = {0}, .fatal = true}};
  const RunResult run = simulate(trace_of({{0, 20, 1}, {0, 10, 1}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 2);
  CHECK(run.requests.extras(1).retries == 1);
  CHECK(run.requests[1].admitted == 20 * kMs);
  CHECK(pricer.batches.size() == 3);  // no prompt is computed twice
}

TEST_CASE("random deployments that lose hardware: every request completes or fails, and everything adds up") {
  test::DeploymentSums sums;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CAPTURE(i);
    CHECK(test::check_random_losses(i, sums) == "");
  }
  CHECK(sums.completed > 5000);
  CHECK(sums.failed > 1000);
  CHECK(sums.retries > 500);
}

TEST_CASE("a rank that comes back is empty and takes new requests once it has rejoined") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 2)};
  specs[0].changes = {{.at = 5 * kMs, .recovery = {}, .ranks = {1}},
                      {.at = 35 * kMs, .recovery = 20 * kMs, .ranks = {}, .fatal = false, .back = {1}}};
  // A and B, both on rank 0 from 10 on, end at 40 and 50 if nothing else happens. The step under way at 35 ends at 40,
  // with A's fourth token; then the instance stands until 60, and B's last two steps end at 70 and 80. C arrives at 50
  // and goes to rank 1: its only token is out at 70.
  const RunResult run = simulate(trace_of({{0, 5, 4}, {0, 5, 5}, {50, 5, 1}}), specs, Router::kRoundRobin, {}, 1);
  CHECK(run.completed == 3);
  CHECK(run.requests[0].finished == 40 * kMs);
  CHECK(run.requests.extras(1).retries == 1);
  CHECK(run.requests[1].finished == 80 * kMs);
  CHECK(run.requests[2].rank == 1);
  CHECK(run.requests[2].finished == 70 * kMs);
}

TEST_CASE("an instance that is lost fails what arrives until it is back, and prefill waits for a decoder alike") {
  FixedPricer pricer(10_ms);
  std::vector<InstanceSpec> specs = {instance_of(pricer, 1)};
  specs[0].changes = {{.at = 5 * kMs, .recovery = {}, .ranks = {0}, .fatal = true},
                      {.at = 100 * kMs, .recovery = {}, .ranks = {}, .fatal = false, .back = {0}}};
  RunResult run = simulate(trace_of({{0, 5, 4}, {50, 5, 1}, {110, 5, 1}}), specs, Router::kRoundRobin, {}, 3);
  CHECK(run.failed == 2);
  CHECK(run.requests[2].finished == 120 * kMs);
  // The model finds that some expert has no copy: as good as lost, with all ranks, though only rank 0 had a GPU go.
  RecoversLate late(10_ms);
  specs = {instance_of(late, 2)};
  specs[0].changes = {{.at = 5 * kMs, .recovery = {}, .ranks = {0}}, {.at = 100 * kMs, .recovery = {}, .ranks = {}}};
  specs[0].changes[1].back = {0};
  run = simulate(trace_of({{0, 5, 4}, {101, 5, 1}, {101, 5, 1}}), specs, Router::kRoundRobin, {}, 3);
  CHECK(run.failed == 1);
  CHECK(run.requests[1].finished == 115 * kMs);  // from 105 on, when copies have been made again
  CHECK(run.requests[2].rank != run.requests[1].rank);
  specs = {instance_of(pricer, 1, InstanceRole::kPrefill), instance_of(pricer, 1, InstanceRole::kDecode)};
  specs[1].changes = {{.at = 5 * kMs, .recovery = {}, .ranks = {0}, .fatal = true},
                      {.at = 100 * kMs, .recovery = {}, .ranks = {}, .fatal = false, .back = {0}}};
  run = simulate(trace_of({{0, 5, 2}, {50, 5, 2}, {101, 5, 2}}), specs, Router::kRoundRobin, {}, 3);
  CHECK(run.failed == 2);
  CHECK(run.requests[2].finished == 126 * kMs);  // 10 ms, 5 on the way, 10
}

TEST_CASE("when GPUs go and come back, and which ranks that breaks") {
  const Parallelism parallelism{.gpus = 4, .attention_tp = 2};
  const std::vector<Fault> faults = {
      {.at = Ticks{9}, .first_gpu = 3, .lost = true},
      {.at = Ticks{5}, .until = Ticks{9}, .first_gpu = 0, .lost = true, .recovery = Ticks{1}, .rejoin = Ticks{2}}};
  ClusterSpec cluster;
  cluster.node.gpus = 4;
  const std::vector<HardwareChange> changes = hardware_changes(faults, cluster, parallelism);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].at == Ticks{5});
  CHECK(changes[0].recovery == Ticks{1});
  CHECK(changes[0].ranks == std::vector<int>{0});
  CHECK(changes[0].lost == LostGpus{true, false, false, false});
  CHECK(changes[1].at == Ticks{9});
  CHECK(changes[1].recovery == Ticks{2});
  CHECK(changes[1].ranks == std::vector<int>{1});
  CHECK(changes[1].back == std::vector<int>{0});
  CHECK_FALSE(changes[1].fatal);
  CHECK(hardware_changes(faults, cluster, {.gpus = 4, .attention_tp = 4})[0].fatal);  // the only rank spans all
  CHECK(hardware_changes(faults, cluster, {.gpus = 4, .attention_tp = 2, .moe_tp = 2})[0].lost ==
        LostGpus{true, false});
}

namespace {

Scenario scenario(const std::string& more,
                  const std::string& policy = "{kind: eplb, num_redundant_experts: 64, avoid_duplicates: true}") {
  return read_scenario(
      Config::from_text(
          fmt::format(
              "name: losses\nseed: 2\ncluster: {{node: DGX-H200, nodes: 2}}\nmodel: {{architecture: olmoe-1b-7b}}\n"
              "parallelism: {{attention_tp: 2}}\ndispatch: {{transport: nccl_p2p}}\nmemory: {{static_fraction: 0.5}}\n"
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
  for (std::size_t i = 0; i < less.requests.size(); ++i) {
    const RequestRecord& r = less.requests[i];
    retries += less.requests.extras(i).retries;
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
  REQUIRE(!bare.warnings.empty());
  CHECK(bare.warnings.back().starts_with(std::to_string(bare.failed) + " of 200 requests failed: hardware was lost"));
  const std::string two = "deployment: {instances: 2, retry_limit: 1}\n";
  CHECK(run(two + "faults: [{at: 20ms, instance: 0, gpu: 3, lost: true}]\n", "{kind: base}").completed == 200);
  CHECK(run(two + "faults: [{at: 20ms, instance: 1, lost: true}]\n", "{kind: libra}").completed == 200);
  const std::string apart = "deployment: {prefill: {instances: 2}, decode: {instances: 2}}\n";
  for (int i = 0; i < 4; ++i) {
    CHECK(run(apart + fmt::format("faults: [{{at: 20ms, instance: {}, lost: true}}]\n", i)).completed == 200);
  }
  CHECK(run(two + "faults: [{at: 0s, instance: 1, node: 1, speed: 0.5}]\n").end > run(two).end);
}

TEST_CASE("copies that are lost are made again: by repair, by a new plan, and when the GPU is back") {
  // 64 experts and 16 copies more on 16 GPUs, skewed so that most experts have one copy: 75 slots are left for 64.
  const std::string eplb = "{kind: eplb, num_redundant_experts: 16}";
  const std::string loss = "faults: [{at: 20ms, gpu: 3, lost: true, recovery: 5ms}]\n";
  CHECK(run(loss, eplb).failed > 0);
  const double expert = 3.0 * 2048 * 1024 * 2;  // bytes
  const RunResult repaired = run(loss + "deployment: {after_loss: repair, reload_rate: 10GB/s}\n", eplb);
  CHECK(repaired.completed == 200);
  CHECK(repaired.regroup.changes == 1);
  CHECK(repaired.regroup.moved.count() == 0);
  CHECK(repaired.regroup.remade_copies > 0);
  CHECK(repaired.regroup.reloaded.count() == static_cast<double>(repaired.regroup.remade_copies) * expert);
  // Each GPU loads its own: as long as one has it all at the most, and not below an even share.
  const double all = repaired.regroup.reloaded.count() / 10e9, took = to_seconds(repaired.regroup.remaking).count();
  CHECK(took <= all);
  CHECK(took >= all / 15);
  const RunResult planned = run(loss + "deployment: {after_loss: replan, reload_rate: 10GB/s}\n", eplb);
  CHECK(planned.completed == 200);
  CHECK(planned.regroup.moved.count() > 0);
  CHECK(planned.regroup.reloaded >= repaired.regroup.reloaded);  // what nobody has left may get several copies
  CHECK(run(loss + "deployment: {after_loss: replan}\n", eplb).failed > 0);
  // With a copy of everything left nothing has to come from outside.
  CHECK(run(loss + "deployment: {after_loss: replan}\n").regroup.reloaded.count() == 0);
  CHECK(run(loss + "deployment: {after_loss: replan}\n").completed == 200);
  // 64 experts do not fit on 15 GPUs of 4.
  CHECK(run(loss + "deployment: {after_loss: replan, reload_rate: 10GB/s}\n", "{kind: base}").failed > 0);
  const std::string passing = "faults: [{at: 20ms, until: 60ms, gpu: 3, lost: true, rejoin: 1ms}]\n";
  const RunResult back = run(passing);
  CHECK(back.completed == 200);
  CHECK(back.regroup.changes == 2);
  CHECK(back.regroup.remade_copies == 16 * 8);  // layers, slots of the GPU
  CHECK(back.regroup.moved.count() == 16 * 8 * expert);
  CHECK(back.end < run("faults: [{at: 20ms, gpu: 3, lost: true, recovery: 0s}]\n").end);
  const RunResult restarted = run(passing + "deployment: {retry_limit: 0}\n", "{kind: base}");
  CHECK(restarted.failed > 0);
  CHECK(restarted.requests.back().state == RequestState::kCompleted);
  CHECK(run(passing, "{kind: libra}").requests.back().state == RequestState::kCompleted);
  const std::string pools = "deployment: {prefill: {}, decode: {}, after_loss: replan, reload_rate: 10GB/s}\n";
  CHECK(run(pools + "faults: [{instance: 1, at: 20ms, until: 90ms, node: 1, lost: true}]\n", eplb).regroup.changes > 0);
}

TEST_CASE("planning again goes on with the GPUs that are left, and with those that come back") {
  const std::string policy =
      "{{kind: eplb, num_redundant_experts: 64, avoid_duplicates: true, rebalance: {{rule: every, steps: 4, window: 4, "
      "planning_time: 1ms, mode: {}}}}}";
  for (const std::string mode : {"sync", "async, link_share: 0.2"}) {
    CAPTURE(mode);
    for (const std::string after : {"keep", "replan"}) {
      const RunResult r =
          run("faults: [{at: 20ms, until: 60ms, gpu: 3, lost: true}]\ndeployment: {after_loss: " + after +
                  ", reload_rate: 10GB/s}\n",
              fmt::format(fmt::runtime(policy), mode));
      CHECK(r.completed == 200);
      CHECK(r.regroup.changes == 2);
      CHECK(r.rebalance.events.size() > 3);
    }
  }
}

TEST_CASE("a GPU that comes back has the experts that planning again had given it") {
  const Scenario s = scenario("", "{kind: base}");
  const PreparedRun run = prepare_run(s, s.policies[0]);
  const PreparedInstance& prepared = run.last();
  ExpertRecovery recovery(s, prepared.pool, prepared.plan);
  PlacementPlan plan = prepared.plan;
  for (LayerPlan& layer : plan.layers) {  // 4 slots a GPU: GPUs 3 and 5 have swapped theirs
    std::swap_ranges(layer.slots.begin() + 12, layer.slots.begin() + 16, layer.slots.begin() + 20);
  }
  const PlacementPlan planned_again = plan;
  std::vector<double> link_bytes(make_network(s.cluster, s.network)->links().size(), 0.0);
  LostGpus lost(16, false);
  lost[3] = true;
  CHECK_FALSE(recovery.recover(plan, lost, s.plan_window, {}, link_bytes).has_value());  // one copy of everything
  lost[3] = false;
  REQUIRE(recovery.recover(plan, lost, s.plan_window, {}, link_bytes).has_value());
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    CHECK(plan.layers[l].slots == planned_again.layers[l].slots);
  }
}

TEST_CASE("who is back serves what others lose at the same instant") {
  const std::string replan = "deployment: {after_loss: replan, reload_rate: 10GB/s}\n";
  const RunResult r =
      run(replan + "faults: [{at: 20ms, until: 60ms, node: 0, lost: true}, {at: 60ms, node: 1, lost: true}]\n",
          "{kind: eplb, num_redundant_experts: 64}");
  CHECK(r.completed == 200);
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
  const SlowingPath slowing;
  for (InstanceSpec& spec : specs) {
    spec.path = &slowing;
    CHECK(arrives() == 130 * kMs);
  }
  specs[0].path = &test::kMsPerToken;
  CHECK(arrives() == 130 * kMs);
  // In a scenario: nodes of 4 ranks, so lanes, of 2 GPUs and their 2 NICs; NIC 2 of node 1 is GPU 10's.
  const std::string apart = "deployment: {prefill: {instances: 1}, decode: {instances: 1}}\n";
  const Scenario s = scenario(apart +
                              "faults: [{instance: 1, at: 1s, until: 2s, node: 1, nic: 2, link_speed: 0.5}, "
                              "{instance: 1, at: 1s, gpu: 15, link_speed: 0.25}]\n");
  const KvLanes lanes(s.deployment.pools[1], s.network.inter, s.model, 2, faults_of(s.faults, 1));
  REQUIRE(lanes.per_node() == 4);
  CHECK(lanes.share_left(5, to_ticks(Seconds{1.5})) == 0.5);
  CHECK(lanes.share_left(5, to_ticks(Seconds{2})) == 1.0);
  CHECK(lanes.share_left(7, to_ticks(Seconds{3})) == 0.25);
  CHECK(lanes.share_left(7, Ticks{}) == 1.0);
  CHECK(faults_of(s.faults, 0).empty());
  const auto waits = [&](const std::string& more) { return run(apart + more).transfers.time; };
  const Seconds whole = waits("");
  CHECK(waits("faults: [{instance: 0, at: 0s, node: 0, link_speed: 0.1}]\n") > whole);
  CHECK(waits("faults: [{instance: 1, at: 0s, node: 0, nic: 3, lost: true}]\n") > whole);
}

TEST_CASE("losses that cannot be are refused, each with its reason") {
  test::check_contains(why("faults: [{at: -1s, gpu: 0, lost: true}]\n"), {"at"});
  test::check_contains(why("faults: [{at: 1s, gpu: 16, lost: true}]\n"), {"0 to 15"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, lost: true, rejoin: 2s}]\n"), {"rejoin", "give `until`"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, speed: 0.5, rejoin: 2s}]\n"), {"rejoin"});
  test::check_contains(why("deployment: {after_loss: repair}\n"), {"deployment.reload_rate", "outside"});
  test::check_contains(why("deployment: {after_loss: hope}\n"), {"deployment.after_loss", "replan"});
  test::check_contains(why("deployment: {reload_rate: 0GB/s}\n"), {"deployment.reload_rate"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, lost: true, speed: 0.5}]\n"), {"no speed"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, speed: 0.5, recovery: 1s}]\n"), {"recovery"});
  test::check_contains(why("faults: [{at: 1s, gpu: 1, nic: 0, lost: true}]\n"), {"needs the `node`"});
  test::check_contains(why("faults: [{at: 1s, node: 1, nic: 99, lost: true}]\n"), {"NICs"});
  test::check_contains(why("faults: [{at: 1s, node: 1, nic: 1, speed: 0.5}]\n"), {"link_speed"});
  test::check_contains(why("faults: [{at: 1s, instance: 1, lost: true}]\n"), {"0 to 0"});
  test::check_contains(why("faults: [{at: 1s, node: 0, lost: true}, {at: 2s, node: 1, lost: true}]\n"),
                       {"all GPUs are lost in the end"});
  test::check_contains(why("faults: [{at: 1s, instance: 0, lost: true}]\n"), {"all GPUs are lost in the end"});
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
}

}  // namespace epsim
