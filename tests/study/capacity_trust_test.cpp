// The capacity search against brute force: every design of six spaces with every number of instances, each deployment run
// as a whole with its router and every step's draw. Minutes, so it runs only when it is asked for:
//   study_tests --no-skip --test-case='*brute force*'
// experiments/capacity/README.md has its table. capacity_test.cpp holds a small space in each test run.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdio>
#include <limits>

#include "sim/study/capacity.h"
#include "sim/study/capacity_cost.h"
#include "sim/study/capacity_runs.h"

namespace epsim {
namespace {

struct TrustSpace {
  const char* name;
  const char* slo;
  double rate;
  int input_tokens, output_tokens, spare;
};

CapacityQuestion question_of(const TrustSpace& space) {
  CapacityQuestion q;
  q.model = "olmoe-1b-7b";
  q.rate = space.rate;
  q.settings = {fmt::format("requests={{kind: poisson, rate: 100/s, count: 400, input_tokens: {}, output_tokens: {}}}",
                            space.input_tokens, space.output_tokens)};
  q.options.slo = parse_slo(space.slo);
  q.options.min_requests_ratio = 10;
  q.policies = {"contiguous", "eplb", "craft"};
  q.most_nodes = 14;
  q.spare = space.spare;
  q.most_requests = 3000;
  q.seeds = 0;
  for (const char* node : {"p5.48xlarge", "p5en.48xlarge"}) {
    for (const int size : {1, 2}) {
      for (const int tp : {1, 4, 8}) {
        q.layouts.push_back({InstanceRole::kWhole, node, size, tp, "sglang", "bf16", 8 * size});
      }
    }
  }
  return q;
}

double price(const CapacityDesign& design) { return price_of(design.node, {})->usd_per_hour; }

// Of all candidates, from the fewest instances of a design on: those above the first that holds cost more.
double least_cost(const CapacityQuestion& q, int& candidates) {
  const CapacityControl control;
  CapacityRuns runs(q, control);
  double least = std::numeric_limits<double>::infinity();
  for (CapacityDesign design : q.layouts) {
    for (const std::string& policy : q.policies) {
      design.policy = policy;
      const CapacityAnswer alone = runs.alone({{design, 1}});
      bool held = false;
      for (int count = 1; (count + q.spare) * design.nodes <= q.most_nodes; ++count, ++candidates) {
        if (!held) {
          const CapacityAnswer answer = runs.ask({{design, count}}, q.rate, alone, AskedFor::kDeployment);
          held = answer.refused.empty() && answer.point.slo.holds;
          least = held ? std::min(least, (count + q.spare) * design.nodes * price(design)) : least;
        }
      }
    }
  }
  return least;
}

}  // namespace

TEST_CASE("the cheapest by search is within an instance of brute force with full runs" * doctest::skip()) {
  constexpr TrustSpace kSpaces[] = {
      {"prompts, p99", "ttft.p99<60ms", 800, 1024, 16, 0},
      {"prompts, mean", "ttft.mean<40ms,tpot.mean<8ms", 800, 1024, 16, 0},
      {"answers, p99", "tpot.p99<5ms", 200, 256, 128, 0},
      {"both", "ttft.p99<150ms,tpot.p99<6ms", 150, 2048, 64, 0},
      {"each request", "ttft<100ms,tpot<8ms,attainment>=0.95", 400, 1024, 32, 0},
      {"a spare", "ttft.p99<60ms", 600, 1024, 16, 1},
  };
  for (const TrustSpace& space : kSpaces) {
    CAPTURE(space.name);
    const CapacityQuestion q = question_of(space);
    int candidates = 0;
    const double least = least_cost(q, candidates);
    CapacityPlan plan;
    plan.slo = q.options.slo;
    plan.rate = q.rate;
    plan.study = search_capacity(q, {});
    check_cheapest(plan, q, {});
    REQUIRE(plan.feasible);
    const double found = plan.costs[plan.order.front()].usd_per_hour;
    fmt::print("| {} | `{}` | {} | {:.2f} | {:.2f} | {} |\n", space.name, space.slo, candidates, least, found,
               plan.study.runs);
    std::fflush(stdout);
    CHECK(candidates >= 300);
    CHECK(least < std::numeric_limits<double>::infinity());
    WARN(found <= 1.02 * least);
    CHECK(found <= 1.34 * least);  // an instance more, of three
    CHECK(found >= least / 1.02);  // nor does it claim what full runs do not bear out
  }
}

}  // namespace epsim
