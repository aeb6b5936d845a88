// Random deployments on random traces, and what every run of one must hold. simulate() audits each run itself
// (audit.h); the rest is what a run's figures must agree on however they were added up.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/simulate.h"
#include "tests/cluster/random_scenario.h"

namespace epsim::test {

// Whole instances, or prefill and decode apart, of either engine.
// What a loss costs an instance, or that it cannot go on, by the time at which it happens.
class RecoveringModel final : public InstanceModel {
 public:
  StepCost price(const StepAt& at, std::span<const RankBatch> ranks) override { return pricer_.price(at, ranks); }
  std::optional<Ticks> recover(const HardwareChange& change) override {
    const auto found = still.find(change.at);
    return found == still.end() ? Ticks{} : found->second;
  }
  std::map<Ticks, std::optional<Ticks>> still;

 private:
  UnevenPricer pricer_;
};

struct RandomDeployment {
  std::vector<std::unique_ptr<RecoveringModel>> models;
  FixedPath path{1e-6, 1e-6};
  std::vector<InstanceSpec> specs;
  Router router;

  explicit RandomDeployment(RandomStream& random) : router(static_cast<Router>(random.below(4))) {
    const bool apart = random.below(2) == 0;
    ServingOptions options = random_options(random);
    choose_engine(random, options);
    const auto reserved = static_cast<std::int64_t>(random.below(20));
    if (auto* knobs = std::any_cast<SglangKnobs>(&options.knobs); knobs != nullptr) {
      knobs->reserved_decode_tokens = reserved;
    }
    const bool drafts = !options.overlap_schedule || options.engine == "trtllm_1_x";
    options.speculative.draft_tokens = drafts ? static_cast<int>(random.below(3)) : 0;
    // The others send whole prompts: vLLM would take a prompt's memory back for which a decode instance has set some aside.
    options.memory_first = random.below(2) == 0 && options.engine.starts_with("sglang");
    options.decodes_await_prompts = options.speculative.draft_tokens > 0;
    if (options.engine == "vllm_v1") {
      options.prefill_alignment.schedule_interval = static_cast<int>(1 + random.below(3));
    } else if (options.engine == "trtllm_1_x") {
      options.prefill_alignment.timeout_iters = static_cast<int>(random.below(4));
      options.prefill_alignment.batching_wait_iters = static_cast<int>(random.below(3));
    } else {
      options.prefill_alignment.max_delay_passes = static_cast<int>(random.below(4));
    }
    options.speculative.acceptance = {random.uniform()};
    options.seed = random.bits();
    for (const InstanceRole role : {InstanceRole::kPrefill, InstanceRole::kDecode}) {
      options.role = apart ? role : InstanceRole::kWhole;
      // The longest request of random_trace() has 72 tokens.
      options.kv_blocks =
          72 / options.kv_block_tokens + 1 + static_cast<std::int64_t>(random.below(40)) / options.kv_block_tokens;
      InstanceSpec spec;
      spec.options = options;
      spec.ranks_per_lane = static_cast<int>(1 + random.below(2));
      spec.path = &path;
      for (InstanceSpec::Eager& eager : spec.eager) {
        eager.batch.waits = static_cast<int>(random.below(2));
      }
      for (std::uint64_t n = 1 + random.below(2); n > 0; --n) {
        models.push_back(std::make_unique<RecoveringModel>());
        spec.model = models.back().get();
        specs.push_back(spec);
      }
    }
  }
  RandomDeployment(const RandomDeployment&) = delete;  // the instances point at its pricer
  RandomDeployment& operator=(const RandomDeployment&) = delete;
};

// Losses of ranks and of whole instances at random times, most of them while requests are about, and what comes back.
inline void add_random_losses(RandomStream& random, RandomDeployment& deployment) {
  for (std::size_t i = 0; i < deployment.specs.size(); ++i) {
    InstanceSpec& spec = deployment.specs[i];
    Ticks at{};
    std::vector<int> left(static_cast<std::size_t>(spec.options.dp_ranks));
    std::iota(left.begin(), left.end(), 0);
    while (!left.empty() && random.below(3) != 0) {
      at += Ticks{static_cast<std::int64_t>(random.below(20'000'000'000))};  // up to 20 ms
      HardwareChange loss{
          .at = at, .recovery = Ticks{static_cast<std::int64_t>(random.below(3) * 1'000'000'000)}, .ranks = {}};
      loss.ranks.push_back(left.back());
      left.pop_back();
      loss.fatal = left.empty() || random.below(6) == 0;
      spec.changes.push_back(loss);
    }
    // What went comes back, some of it, in the order in which it went.
    const std::size_t gone = spec.changes.size();
    for (std::size_t l = 0; l < gone && random.below(2) == 0; ++l) {
      at += Ticks{static_cast<std::int64_t>(random.below(20'000'000'000))};
      spec.changes.push_back({.at = at, .recovery = {}, .ranks = {}, .fatal = false, .back = spec.changes[l].ranks});
    }
    // Copies are made again, or cannot be.
    for (const HardwareChange& change : spec.changes) {
      std::optional<Ticks>& still = deployment.models[i]->still[change.at];
      still = Ticks{static_cast<std::int64_t>(random.below(2) * 700'000'000)};
      if (random.below(8) == 0) {
        still.reset();
      }
    }
  }
}

struct DeploymentSums {
  std::int64_t transfers = 0, retractions = 0, hits = 0;
  std::int64_t completed = 0, failed = 0, retries = 0;
};

// Runs random deployment number i with random losses twice; what is wrong with it, or nothing.
inline std::string check_random_losses(std::uint64_t i, DeploymentSums& sums) {
  RandomStream random(Seed{2029}, "deployment-losses", i);
  RequestTrace trace = random_trace(random);
  RandomDeployment deployment(random);
  add_random_losses(random, deployment);
  if (random.below(2) == 0) {
    trace.prefixes = random_prefixes(random, trace, deployment.specs[0].options.kv_block_tokens * 2);
  }
  const auto limit = static_cast<int>(random.below(4));
  const RunResult run = simulate(trace, deployment.specs, deployment.router, {}, limit);
  std::int64_t retries = 0;
  for (std::size_t k = 0; k < run.requests.size(); ++k) {
    const RequestRecord& r = run.requests[k];
    retries += run.requests.extras(k).retries;
    if (r.state != RequestState::kCompleted && r.state != RequestState::kFailed) {
      return "a request ended neither completed nor failed";
    }
    if (run.requests.extras(k).retries > limit) {
      return "a request started anew too often";
    }
  }
  sums.completed += run.completed;
  sums.failed += run.failed;
  sums.retries += retries;
  if (run.completed + run.failed != std::ssize(trace.requests)) {
    return "a request was lost";
  }
  if (std::abs(run.conservation.little_l - run.conservation.little_lambda_w) > 1e-9 * (1 + run.conservation.little_l)) {
    return "Little's law does not hold";
  }
  return simulate(trace, deployment.specs, deployment.router, {}, limit).fingerprint == run.fingerprint
             ? ""
             : "the second run differs";
}

// Runs random deployment number i twice; what is wrong with it, or nothing.
inline std::string check_random_deployment(std::uint64_t i, DeploymentSums& sums) {
  RandomStream random(Seed{2027}, "deployment-fuzz", i);
  RequestTrace trace = random_trace(random);
  const RandomDeployment deployment(random);
  if (random.below(2) == 0) {
    trace.prefixes = random_prefixes(random, trace, deployment.specs[0].options.kv_block_tokens * 2);
  }
  const RunResult run = simulate(trace, deployment.specs, deployment.router, {});
  double between = 0;
  for (const RequestRecord& r : run.requests) {
    between += to_seconds(r.finished - r.first_token).count();
  }
  sums.transfers += run.transfers.count;
  sums.retractions += run.kv.retractions;
  sums.hits += run.kv.hit_tokens;
  const double gaps = run.latency.itl_s.mean * static_cast<double>(run.latency.itl_s.count);
  if (run.completed != std::ssize(trace.requests)) {
    return "a request was lost";
  }
  if (std::abs(gaps - between) > 1e-9 * (1 + between)) {
    return "the gaps between tokens do not add up";
  }
  if (std::abs(run.conservation.little_l - run.conservation.little_lambda_w) > 1e-9 * (1 + run.conservation.little_l)) {
    return "Little's law does not hold";
  }
  return simulate(trace, deployment.specs, deployment.router, {}).fingerprint == run.fingerprint
             ? ""
             : "the second run differs";
}

}  // namespace epsim::test
