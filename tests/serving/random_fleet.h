// Random deployments on random traces, and what every run of one must hold. simulate() audits each run itself
// (audit.h); the rest is what a run's figures must agree on however they were added up.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/serving/simulate.h"
#include "tests/serving/random_scenario.h"

namespace epsim::test {

// Whole instances, or prefill and decode apart, of either engine.
struct RandomFleet {
  UnevenPricer pricer;
  std::vector<InstanceSpec> specs;
  Router router;

  explicit RandomFleet(RandomStream& random) : router(static_cast<Router>(random.below(3))) {
    const bool apart = random.below(2) == 0;
    ServingOptions options = random_options(random);
    choose_engine(random, options);
    options.reserved_decode_tokens = static_cast<std::int64_t>(random.below(20));
    options.speculative.draft_tokens = static_cast<int>(random.below(3));
    options.speculative.acceptance = random.uniform();
    options.seed = random.bits();
    for (const InstanceRole role : {InstanceRole::kPrefill, InstanceRole::kDecode}) {
      options.role = apart ? role : InstanceRole::kWhole;
      // The longest request of random_trace() has 72 tokens.
      options.kv_blocks =
          72 / options.kv_block_tokens + 1 + static_cast<std::int64_t>(random.below(40)) / options.kv_block_tokens;
      InstanceSpec spec;
      spec.options = options;
      spec.pricer = &pricer;
      spec.ranks_per_lane = static_cast<int>(1 + random.below(2));
      spec.transfer_time = [](std::int64_t tokens) { return Seconds{1e-6 * static_cast<double>(1 + tokens)}; };
      specs.insert(specs.end(), 1 + random.below(2), spec);
    }
  }
  RandomFleet(const RandomFleet&) = delete;  // the instances point at its pricer
  RandomFleet& operator=(const RandomFleet&) = delete;
};

struct FleetSums {
  std::int64_t transfers = 0, retractions = 0, hits = 0;
};

// Runs random deployment number i twice; what is wrong with it, or nothing.
inline std::string check_random_fleet(std::uint64_t i, FleetSums& sums) {
  RandomStream random(Seed{2027}, "fleet-fuzz", i);
  RequestTrace trace = random_trace(random);
  const RandomFleet fleet(random);
  if (random.below(2) == 0) {
    trace.prefixes = random_prefixes(random, trace, fleet.specs[0].options.kv_block_tokens * 2);
  }
  const RunResult run = simulate(trace, fleet.specs, fleet.router, {});
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
  return simulate(trace, fleet.specs, fleet.router, {}).fingerprint == run.fingerprint ? "" : "the second run differs";
}

}  // namespace epsim::test
