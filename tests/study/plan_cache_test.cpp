// Plans are made once per (policy, window, shape) of a study, whatever the number of runs and threads.
#include "sim/cluster/plan_cache.h"

#include <doctest/doctest.h>
#include <tbb/parallel_for.h>

#include <atomic>
#include <memory>

#include "sim/cluster/run_policy.h"
#include "sim/core/error.h"
#include "tests/support/errors.h"
#include "tests/support/small_scenario.h"

namespace epsim {
namespace {

// Counts what it is asked; else the policy that it stands in for.
class CountingPolicy : public PlacementPolicy {
 public:
  CountingPolicy(std::shared_ptr<const PlacementPolicy> real, std::atomic<int>& asked)
      : real_(std::move(real)), asked_(asked) {}
  PlacementPlan plan(const LoadWindow& load, const ClusterShape& shape) const override {
    ++asked_;
    return real_->plan(load, shape);
  }

 private:
  std::shared_ptr<const PlacementPolicy> real_;
  std::atomic<int>& asked_;
};

// The small scenario under eplb, its plans counted.
Scenario counted(const std::vector<std::string>& settings, std::atomic<int>& asked) {
  std::vector<std::string> all{"policy=eplb"};
  all.insert(all.end(), settings.begin(), settings.end());
  Scenario s = test::small(all);
  for (PolicyChoice& policy : s.policies) {
    policy.placement = std::make_shared<CountingPolicy>(policy.placement, asked);
  }
  return s;
}

TEST_CASE("runs that differ in nothing that a plan is made from share it") {
  std::atomic<int> asked{0};
  PlanCache plans;
  const Scenario slow = counted({"requests.rate=5/s"}, asked), fast = counted({"requests.rate=50/s"}, asked);
  const PreparedRun a = prepare_run(slow, slow.policies[0], &plans), b = prepare_run(fast, fast.policies[0], &plans);
  CHECK(asked == 1);
  CHECK(plans.made() == 1);
  const PreparedRun alone = prepare_run(fast, fast.policies[0]);
  CHECK(asked == 2);
  for (const PreparedRun* run : {&a, &b}) {
    CHECK(run_prepared(fast, *run, fast.requests, {}).fingerprint ==
          run_prepared(fast, alone, fast.requests, {}).fingerprint);
  }
}

TEST_CASE("another policy's options, window or shape are another plan") {
  for (const char* other : {"policies={eplb: {num_redundant_experts: 32}}", "seed=2", "cluster.nodes=1"}) {
    CAPTURE(other);
    std::atomic<int> asked{0};
    PlanCache plans;
    const Scenario one = counted({}, asked), two = counted({other}, asked);
    prepare_run(one, one.policies[0], &plans);
    prepare_run(two, two.policies[0], &plans);
    prepare_run(one, one.policies[0], &plans);
    CHECK(asked == 2);
  }
}

TEST_CASE("pools of one shape share a plan, and labels do not part what is alike") {
  std::atomic<int> asked{0};
  PlanCache plans;
  const Scenario pools =
      counted({"deployment={prefill: {instances: 2, nodes: 2, serving: {}}, decode: {instances: 1, nodes: 2, "
               "serving: {}}}"},
              asked);
  const PreparedRun prepared = prepare_run(pools, pools.policies[0], &plans);
  CHECK(prepared.pools.size() == 2);
  CHECK(asked == 1);
  const Scenario named = counted({"policy=mine", "policies={mine: {kind: eplb}}"}, asked);
  CHECK(prepare_run(named, named.policies[0], &plans).last().plan.policy == "mine");
  CHECK(asked == 1);
}

TEST_CASE("asked at once by many threads, a policy plans once; its error goes to each") {
  std::atomic<int> asked{0};
  PlanCache plans;
  const Scenario s = counted({}, asked);
  tbb::parallel_for(0, 16, [&](int) { prepare_run(s, s.policies[0], &plans); });
  CHECK(asked == 1);
  struct Refusing : PlacementPolicy {
    PlacementPlan plan(const LoadWindow&, const ClusterShape&) const override { throw RunFailed("no plan"); }
  };
  Scenario bad = test::small({"policy=contiguous"});
  bad.policies[0].placement = std::make_shared<Refusing>();
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(prepare_run(bad, bad.policies[0], &plans), "no plan", RunFailed);
  }
}

}  // namespace
}  // namespace epsim
