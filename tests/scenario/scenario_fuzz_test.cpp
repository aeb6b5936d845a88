// Random small scenarios through the whole spine: every bound of physics.md section 9 is checked inside each run, so a
// run that ends is a run that held them. What a run cannot check alone is checked here.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/cluster/run_policy.h"
#include "sim/core/rng.h"
#include "sim/scenario/read_scenario.h"

using namespace epsim;

namespace {

std::string random_scenario(RandomStream& random) {
  const auto pick = [&](std::vector<std::string> from) { return from[random.below(from.size())]; };
  const int nodes = 1 << random.below(3);
  const std::string model = pick({"olmoe-1b-7b", "qwen3-30b-a3b", "deepseek-v2-lite"});
  const std::string loads = pick({"{kind: uniform}", "{kind: zipf, exponent: 0.6}",
                                  "{kind: skew, low: 1.2, high: 3.5, high_share: 0.4, variation: none}"});
  return fmt::format(
      "name: fuzz\nseed: {}\ncluster: {{node: {}, nodes: {}}}\nmodel: {{architecture: {}}}\n"
      "parallelism: {{attention_tp: {}, shared_experts: {}, dense_ffn: {}, embedding: {}}}\n"
      "memory: {{static_fraction: 0.8, kv_block_tokens: {}, num_gpu_blocks: {}}}\n"
      "serving: {{chunked_prefill_size: {}, mixed_chunk: {}, max_running_requests: {}, router: {}, "
      "disable_overlap_schedule: {}}}\n"
      "dispatch: {{transport: nccl_p2p, dedup: {}, exchange_counts: {}}}\n"
      "requests: {{kind: poisson, rate: {}/s, count: {}, input_tokens: {}, output_tokens: {}}}\n"
      "loads: {}\nplan_loads: {{kind: skew, low: 1.2, high: 3.5, high_share: 0.4}}\n",
      random.below(1000), pick({"p4de.24xlarge", "DGX-H100", "p5en.48xlarge"}), nodes, model,
      pick({"1", "2", "4", "8"}), pick({"tensor_parallel", "replicated"}), pick({"tensor_parallel", "replicated"}),
      pick({"tensor_parallel", "replicated"}), pick({"1", "16", "64"}), 60 + random.below(2000), 64 << random.below(6),
      pick({"true", "false"}), pick({"0", "1", "7"}), pick({"round_robin", "least_tokens"}), pick({"true", "false"}),
      pick({"none", "gpu", "node"}), pick({"true", "false"}), 1 + random.below(200), 1 + random.below(30),
      1 + random.below(50), 1 + random.below(10), loads);
}

double sum(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }

}  // namespace

TEST_CASE("whatever the scenario: everything asked for is done, and priced alike twice") {
  for (std::uint64_t i = 0; i < 50; ++i) {
    RandomStream random(Seed{2026}, "scenario-fuzz", i);
    const std::string text = random_scenario(random);
    CAPTURE(text);
    const Scenario s = read_scenario(Config::from_text(text, "fuzz.yaml"), {"base", "eplb", "contiguous"});
    for (const PolicyChoice& policy : s.policies) {
      CAPTURE(policy.label);
      const RunResult run = run_policy(s, policy, {});
      REQUIRE(run.completed == static_cast<std::int64_t>(s.requests.requests.size()));
      // Tokens x top-k x MoE layers: every input token once, every output token but a request's first.
      std::int64_t tokens = 0;
      for (const Request& r : s.requests.requests) {
        tokens += r.input_tokens + r.output_tokens - 1;
      }
      const double routed = static_cast<double>(tokens) * s.model.top_k * s.model.moe_layers();
      // And one decode too many for a request, where the schedule overlaps.
      const double more =
          s.serving.overlap_schedule ? static_cast<double>(run.completed) * s.model.top_k * s.model.moe_layers() : 0;
      CHECK(sum(run.detail.gpu_load) >= routed * (1 - 1e-4));
      CHECK(sum(run.detail.gpu_load) <= (routed + more) * (1 + 1e-4));
      for (const LayerTotals& layer : run.detail.layers) {
        CHECK(layer.balancedness_sum <= static_cast<double>(run.steps) * (1 + 1e-9));
      }
      CHECK(run.time.straggler <= run.time.total);
      CHECK(run_policy(s, policy, {}).fingerprint == run.fingerprint);
    }
  }
}

TEST_CASE("whatever the number of EP ranks: every row is computed once, by the GPUs of its rank together") {
  for (std::uint64_t i = 0; i < 20; ++i) {
    RandomStream random(Seed{2028}, "ep-fuzz", i);
    Config config = Config::from_text(random_scenario(random), "fuzz.yaml");
    config.set("dispatch={transport: allgather_reducescatter}");
    const bool hybrid = random.below(3) != 0;
    config.set(hybrid ? "serving.engine=sglang_0_4_10" : "serving.budgets=per_rank");
    const int gpus = read_scenario(config, {}).cluster.gpus();
    const int ranks = hybrid ? gpus >> random.below(6) : 1;
    config.set(fmt::format("parallelism.ep_size={}", std::max(1, ranks)));
    const Scenario s = read_scenario(config, {"base", "eplb"});
    CAPTURE(s.resolved);
    for (const PolicyChoice& policy : s.policies) {
      const RunResult run = run_policy(s, policy, {});
      REQUIRE(run.completed == std::ssize(s.requests.requests));
      CHECK(sum(run.detail.gpu_load) == doctest::Approx(run.detail.assignments_routed).epsilon(1e-4));
      for (std::size_t g = 0; g < run.detail.gpu_load.size(); g += static_cast<std::size_t>(s.parallelism.moe_tp)) {
        CHECK(run.detail.gpu_load[g] ==
              run.detail.gpu_load[g + static_cast<std::size_t>(s.parallelism.moe_tp) - 1]);  // alike in a rank
      }
      CHECK(run_policy(s, policy, {}).fingerprint == run.fingerprint);
    }
  }
}

TEST_CASE("more copies never leave more KV cache, nor a less balanced plan on the window they were made from") {
  const std::string text =
      "name: copies\ncluster: {node: p4de.24xlarge, nodes: 4}\nmodel: {architecture: qwen3-30b-a3b}\n"
      "memory: {static_fraction: 0.5}\nrequests: {kind: constant, rate: 1/s, count: 1, input_tokens: 8, output_tokens: "
      "1}\n"
      "loads: {kind: skew, low: 2, high: 9, high_share: 0.5}\nplan_loads: {kind: skew, low: 2, high: 9, high_share: "
      "0.5}\n"
      "policies:\n"
      "  r0: {kind: eplb, num_redundant_experts: 0}\n  r1: {kind: eplb, num_redundant_experts: 32}\n"
      "  r2: {kind: eplb, num_redundant_experts: 64}\n  r4: {kind: eplb, num_redundant_experts: 128}\n";
  const Scenario s = read_scenario(Config::from_text(text, "copies.yaml"), {"r0", "r1", "r2", "r4"});
  double last_pool = 1e18, last_balance = 0, last_ideal = 1e18;
  for (const PolicyChoice& policy : s.policies) {
    const PreparedInstance run = prepare_run(s, policy).last();
    const std::vector<double> balance = balancedness_by_layer(run.placement, s.plan_window);
    CHECK(run.memory.kv_pool.count() < last_pool);
    // EPLB's greedy packing is not optimal, so a hundredth of slack.
    CHECK(sum(balance) / static_cast<double>(balance.size()) >= last_balance - 0.01);
    // The ideal maximum: no GPU can be below the mean, none that holds a copy below that copy's share.
    double ideal = 0;
    for (int l = 0; l < run.placement.layers(); ++l) {
      const std::span<const double> loads = s.plan_window.layer(l);
      double most = s.plan_window.total(l) / s.cluster.gpus();
      for (std::size_t e = 0; e < loads.size(); ++e) {
        most = std::max(most, loads[e] / run.placement.layer(l).copies[e]);
      }
      ideal += most;
    }
    CHECK(ideal <= last_ideal * (1 + 1e-12));
    last_ideal = ideal;
    last_pool = run.memory.kv_pool.count();
    last_balance = sum(balance) / static_cast<double>(balance.size());
  }
}

TEST_CASE(
    "whatever the rebalancing, the losses and the returns: every request completes or fails, and runs are alike "
    "twice") {
  std::int64_t moved = 0, failed = 0, retried = 0, remade = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    RandomStream random(Seed{2027}, "change-fuzz", i);
    const auto pick = [&](std::vector<std::string> from) { return from[random.below(from.size())]; };
    std::string text = random_scenario(random);
    text += fmt::format(
        "policies:\n  tested: {{kind: {}, rebalance: {{rule: {}, steps: {}, window: {}, planning_time: {}ms, {}}}}}\n"
        "  bare: {{kind: eplb, avoid_duplicates: true, num_redundant_experts: {}}}\n",
        pick({"eplb", "base"}), pick({"every", "threshold", "gain"}), 1 + random.below(6), 1 + random.below(6),
        random.below(50), pick({"layers_per_chunk: 3", "mode: async", "mode: async, link_share: 0.1", "keep: gpus"}),
        64 * random.below(3));
    CAPTURE(text);
    const Scenario s = read_scenario(Config::from_text(text, "fuzz.yaml"), {"tested"});
    const RunResult run = run_policy(s, s.policies[0], {});
    CHECK(run.completed == std::ssize(s.requests.requests));
    CHECK(run_policy(s, s.policies[0], {}).fingerprint == run.fingerprint);
    moved += run.rebalance.sum().moved_copies;
    // Just after a request has come, so that it is likely to be under way.
    const Request& met = s.requests.requests[random.below(s.requests.requests.size())];
    const auto at_ms = static_cast<std::int64_t>(to_seconds(met.arrival).count() * 1e3) + 2;
    const std::string losses = fmt::format(
        "deployment: {{instances: {}, retry_limit: {}}}\nfaults: [{{instance: 0, at: {}ms, gpu: {}, lost: true, "
        "recovery: "
        "{}ms}}]\n",
        1 + random.below(2), random.below(3), at_ms, random.below(8), random.below(100));
    const Scenario less = read_scenario(Config::from_text(text + losses, "fuzz.yaml"), {"bare"});
    const RunResult lost = run_policy(less, less.policies[0], {});
    CHECK(lost.completed + lost.failed == std::ssize(s.requests.requests));
    CHECK(run_policy(less, less.policies[0], {}).fingerprint == lost.fingerprint);
    failed += lost.failed;
    // The same with copies made again, a policy that plans again, and a GPU that comes back.
    const std::string anew = fmt::format(
        "deployment: {{instances: {}, retry_limit: 2, after_loss: {}, reload_rate: 20GB/s}}\nfaults: [{{instance: 0, "
        "at: "
        "{}ms, until: {}ms, gpu: {}, lost: true}}, {{instance: 0, at: {}ms, node: 0, link_speed: 0.5}}]\n",
        1 + random.below(2), pick({"keep", "repair", "replan"}), at_ms, at_ms + 1 + static_cast<int>(random.below(60)),
        random.below(8), at_ms);
    const Scenario again = read_scenario(Config::from_text(text + anew, "fuzz.yaml"), {"tested", "bare"});
    for (const PolicyChoice& policy : again.policies) {
      const RunResult regrouped = run_policy(again, policy, {});
      CHECK(regrouped.completed + regrouped.failed == std::ssize(s.requests.requests));
      CHECK(run_policy(again, policy, {}).fingerprint == regrouped.fingerprint);
      remade += regrouped.regroup.remade_copies;
    }
    for (const RequestExtras& extras : lost.requests.all_extras()) {
      retried += extras.retries;
    }
  }
  CHECK(moved > 1000);
  CHECK(failed > 10);
  CHECK(retried > 10);
  CHECK(remade > 1000);
}
