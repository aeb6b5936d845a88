#include <doctest/doctest.h>

#include "policies/registry.h"
#include "sim/core/rng.h"
#include "tests/policies/support.h"
#include "tests/support/residency.h"

using namespace epsim;

namespace {

// Skewed requests of 8 GPUs for 32 experts: expert e is asked for in proportion to 1 / (e + 1).
RequestMatrix skewed(std::uint64_t index) {
  RandomStream random(Seed{5}, "step-policies", index);
  RequestMatrix out(8, 32);
  for (int g = 0; g < 8; ++g) {
    for (int e = 0; e < 32; ++e) {
      out.at(g, e) = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(2000 / (e + 1) + 1)));
    }
  }
  return out;
}

std::unique_ptr<StepPolicy> make(std::string_view name) { return test::step_policy(std::string(name)); }

}  // namespace

TEST_CASE("every step policy computes every request once, never worsens the balance, and decides alike twice") {
  const Residency home = test::contiguous(32, 8);
  for (const StepPolicyEntry& entry : step_policies()) {
    CAPTURE(entry.name);
    const std::unique_ptr<StepPolicy> policy = make(entry.name);
    for (std::uint64_t i = 0; i < 20; ++i) {
      const RequestMatrix requests = skewed(i);
      const StepDecision decision = policy->decide(requests, requests, home);
      for (int e = 0; e < requests.experts; ++e) {
        CHECK(decision.tokens.of_expert(e) == requests.of_expert(e));
      }
      CHECK(imbalance(decision.tokens) <= imbalance(local_or_home(requests, home)) * (1 + 1e-9));
      CHECK(decision.most_extra <= 32 - 4);
      const StepDecision again = policy->decide(requests, requests, home);
      CHECK(again.tokens.count == decision.tokens.count);
    }
  }
}

TEST_CASE("nothing to do: no tokens, or one GPU") {
  for (const StepPolicyEntry& entry : step_policies()) {
    CAPTURE(entry.name);
    const std::unique_ptr<StepPolicy> policy = make(entry.name);
    const RequestMatrix idle(4, 8);
    CHECK(policy->decide(idle, idle, test::contiguous(8, 4)).tokens.total() == 0);
    RequestMatrix alone(1, 8);
    alone.at(0, 3) = 500;
    const StepDecision decision = policy->decide(alone, alone, test::contiguous(8, 1));
    CHECK(decision.tokens.at(0, 3) == 500);
    CHECK(decision.most_extra == 0);
  }
}

TEST_CASE("limits and profiles are what the papers state") {
  const RequestMatrix requests = skewed(1);
  const Residency home = test::contiguous(32, 8);
  CHECK(make("libra")->decide(requests, requests, home).most_extra <= 8);  // N = 8
  CHECK(make("lina")->decide(requests, requests, home).most_extra <= 8);
  // Libra: AllGather dispatch, two stages, two sets of buffers (Sec. 4); HarMoEny fetches after the routing is known.
  const ExecutionProfile libra = make("libra")->profile();
  CHECK(libra.dispatch == ExecutionProfile::Dispatch::kAllGather);
  CHECK(libra.two_stage);
  CHECK(libra.resident_buffers == 2);
  CHECK(make("harmoeny")->profile().copies_on_demand);
}

TEST_CASE("options are read and checked") {
  CHECK_THROWS_AS(test::step_policy("libra", "{n_extra: 2, n_local: 3}"), InputError);
  CHECK_THROWS_AS(test::step_policy("libra", "{n_extar: 2}"), InputError);
}

TEST_CASE("Libra: the number of copies from the time window, and the local share from alpha") {
  const auto most = [](const std::string& yaml) {
    return test::step_policy("libra", yaml)->decide(skewed(1), skewed(1), test::contiguous(32, 8)).most_extra;
  };
  CHECK(most("{n_extra: 3}") == 3);
  // An expert of 45 MB at 450 GB/s takes 100 us: three fit into 0.35 ms, none into 90 us.
  const std::string machine = ", rate: 450GB/s, expert_bytes: 45MB";
  CHECK(most("{n_extra: auto, window: 350us" + machine + "}") == 3);
  CHECK(most("{n_extra: auto, window: 90us" + machine + "}") == 0);
  CHECK(most("{n_extra: auto, window: 1s" + machine + ", most_extra: 5}") == 5);
  CHECK_THROWS_AS(most("{n_extra: auto}"), InputError);
  CHECK_THROWS_AS(most("{n_extra: many}"), InputError);
  CHECK_THROWS_AS(most("{n_extra: 8, alpha: 2}"), InputError);  // more local ones than there may be
}
