// Random ways to execute steps, random faults and policies: every run checks physics.md's bounds on itself (assignments
// executed once, bytes received as sent, no link over 100 % busy, parts that sum to the step), so a run that ends is
// one that held them.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "sim/cluster/run_policy.h"
#include "sim/core/rng.h"
#include "sim/scenario/read_scenario.h"

using namespace epsim;

namespace {

struct Draw {
  RandomStream& random;
  std::string one_of(std::vector<std::string> from) const { return from[random.below(from.size())]; }
};

std::string random_job(const Draw& draw, bool by_step) {
  RandomStream& random = draw.random;
  const int nodes = 1 << random.below(2);
  const std::string execution =
      by_step ? draw.one_of({"{}", "{exchange_sm_share: 0}", "{speed_beside_copies: 0.8}"})
              : draw.one_of({"{mode: event}", "{sync: pairwise}", "{overlap: shared_expert}", "{overlap: two_batch}",
                             "{overlap: two_batch, sync: pairwise}", "{overlap: two_batch, two_batch_min_tokens: 40}"});
  const std::string faults =
      draw.one_of({"", fmt::format("faults: [{{at: 1ms, gpu: {}, speed: 0.3}}]\n", random.below(8)),
                   fmt::format("faults: [{{at: 0s, until: 30ms, node: {}, link_speed: 0.2}}]\n",
                               random.below(static_cast<std::uint64_t>(nodes)))});
  return fmt::format(
      "name: fuzz\nseed: {}\ncluster: {{node: {}, nodes: {}}}\nmodel: {{architecture: {}}}\n"
      "parallelism: {{attention_tp: {}}}\nmemory: {{static_fraction: 0.8, num_gpu_blocks: 4000}}\n"
      "serving: {{chunked_prefill_size: {}}}\ndispatch: {{transport: nccl_p2p, dedup: {}, exchange_counts: {}}}\n"
      "requests: {{kind: poisson, rate: 200/s, count: {}, input_tokens: {}, output_tokens: {}}}\n"
      "loads: {}\nplan_loads: {{kind: skew, low: 1.2, high: 3.5, high_share: 0.4}}\nexecution: {}\n{}{}",
      random.below(1000), draw.one_of({"p4de.24xlarge", "DGX-H100"}), nodes,
      draw.one_of({"olmoe-1b-7b", "deepseek-v2-lite"}), draw.one_of({"1", "2", "8"}), 32 << random.below(6),
      draw.one_of({"none", "gpu", "node"}), draw.one_of({"true", "false"}), 1 + random.below(12), 1 + random.below(400),
      1 + random.below(6), draw.one_of({"{kind: uniform}", "{kind: skew, low: 1.2, high: 3.5, high_share: 0.4}"}),
      execution, faults, draw.one_of({"", "", "network: {model: max_min}\n"}));
}

void check_runs(const std::string& text, const std::vector<std::string>& policies) {
  CAPTURE(text);
  const Scenario s = read_scenario(Config::from_text(text, "fuzz.yaml"), policies);
  for (const PolicyChoice& policy : s.policies) {
    CAPTURE(policy.label);
    const RunResult run = run_policy(s, policy, {});
    REQUIRE(run.completed == std::ssize(s.requests.requests));
    std::int64_t tokens = 0;
    for (const Request& r : s.requests.requests) {
      tokens += r.input_tokens + r.output_tokens - 1;
    }
    // The overlapped schedule decodes a request once more than it needs.
    const double token = s.model.top_k * s.model.moe_layers(), routed = static_cast<double>(tokens) * token;
    CHECK(run.conservation.assignments_routed >= routed * (1 - 1e-9));
    CHECK(run.conservation.assignments_routed <= (routed + static_cast<double>(run.completed) * token) * (1 + 1e-9));
    CHECK(run.time.straggler <= run.time.total);
    CHECK(run_policy(s, policy, {}).fingerprint == run.fingerprint);
  }
}

}  // namespace

TEST_CASE("whatever overlaps or fails: everything asked for is done, alike twice") {
  for (std::uint64_t i = 0; i < 60; ++i) {
    RandomStream random(Seed{77}, "execution-fuzz", i);
    check_runs(random_job({random}, false), {"base", "eplb"});
  }
}

TEST_CASE("whatever the policy does in a step: everything asked for is done, alike twice") {
  for (std::uint64_t i = 0; i < 25; ++i) {
    RandomStream random(Seed{78}, "execution-fuzz", i);
    const std::string text = random_job({random}, true);
    check_runs(text, {"libra", Draw{random}.one_of({"lina", "harmoeny", "fastermoe", "least_loaded_ep"})});
  }
}
