// The capacity search against asking every design with every number of instances.
#include "sim/study/capacity.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <tbb/global_control.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <tuple>

#include "sim/study/capacity_cost.h"
#include "sim/study/capacity_runs.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

CapacityQuestion small_question(double rate, const std::string& slo) {
  CapacityQuestion q;
  q.model = "olmoe-1b-7b";
  q.rate = rate;
  q.settings = {"requests={kind: poisson, rate: 100/s, count: 400, input_tokens: 1024, output_tokens: 16}"};
  q.options.slo = parse_slo(slo);
  q.options.min_requests_ratio = 5;
  q.policies = {"contiguous", "eplb"};
  q.most_nodes = 16;
  q.first_requests = q.most_requests = 400;
  q.seeds = 0;
  for (const int size : {1, 2}) {
    for (const int tp : {1, 8}) {
      q.layouts.push_back({InstanceRole::kWhole, "DGX-H100", size, tp, "sglang", "bf16", 8 * size});
    }
  }
  return q;
}

// The fewest nodes of all designs, each asked with every number of instances that most_nodes allows.
int fewest_by_exhaustion(const CapacityQuestion& q) {
  const CapacityControl control;
  CapacityRuns runs(q, control);
  int fewest = std::numeric_limits<int>::max();
  for (const CapacityDesign& layout : q.layouts) {
    for (const std::string& policy : q.policies) {
      CapacityDesign design = layout;
      design.policy = policy;
      for (int count = 1; CapacityPool{design, count}.nodes(q.spare) <= q.most_nodes; ++count) {
        const CapacityAnswer answer = runs.ask({{design, 1}}, count, runs.alone({{design, 1}}));
        if (answer.refused.empty() && answer.point.slo.holds) {
          fewest = std::min(fewest, CapacityPool{design, count}.nodes(q.spare));
          break;
        }
      }
    }
  }
  return fewest;
}

}  // namespace

TEST_CASE("the capacity search finds as few nodes as asking every design does") {
  for (const int spare : {0, 2}) {
    const double rate = 1500;
    for (const char* slo : {"ttft.p99<60ms", "ttft.mean<60ms,tpot.mean<8ms"}) {
      CAPTURE(spare);
      CAPTURE(slo);
      CapacityQuestion q = small_question(rate, slo);
      q.spare = spare;
      const int fewest = fewest_by_exhaustion(q);
      const CapacityStudy study = search_capacity(q, {});
      if (fewest > q.most_nodes) {
        CHECK(study.options.empty());
        CHECK(study.nearest);
      } else {
        REQUIRE(study.options.size() == 1);
        CHECK(study.options.front().nodes() == fewest);
      }
      CHECK(study.rows.size() == q.layouts.size() * q.policies.size());  // each has its place in the ledger
    }
  }
}

TEST_CASE("spare instances are paid by their nodes, so that small instances may win") {
  CapacityQuestion q = small_question(200, "ttft.p99<100ms");
  q.policies = {"contiguous"};
  q.layouts = {{InstanceRole::kWhole, "DGX-H100", 4, 8, "sglang", "bf16", 32},
               {InstanceRole::kWhole, "DGX-H100", 1, 8, "sglang", "bf16", 8, {"memory={num_gpu_blocks: 2100}"}}};
  // With so few KV blocks the small ones need six, where one of four nodes does. With a spare: 7 and 8 nodes.
  for (const auto& [spare, nodes, size] : {std::tuple{0, 4, 4}, std::tuple{1, 7, 1}}) {
    q.spare = spare;
    CAPTURE(q.spare);
    const CapacityStudy study = search_capacity(q, {});
    REQUIRE(study.options.size() == 1);
    CHECK(study.options.front().nodes() == nodes);
    CHECK(study.options.front().pools.front().design.nodes == size);
    CHECK(fewest_by_exhaustion(q) == nodes);
  }
}

TEST_CASE("instances that share a node are paid by the nodes that they fill") {
  const CapacityDesign quarter{InstanceRole::kWhole, "DGX-H100", 1, 2, "sglang", "bf16", 2, {}, "base", 4, "1/4"};
  CHECK(name_of(quarter) == "1/4 x DGX-H100, attention TP 2, sglang, bf16, base");
  CHECK(CapacityPool{quarter, 4}.nodes() == 1);
  CHECK(CapacityPool{quarter, 5}.nodes() == 2);
  CHECK(CapacityPool{quarter, 4}.nodes(1) == 2);  // the spare one is the fifth
  CapacityQuestion q = small_question(400, "ttft.p99<100ms");
  q.policies = {"contiguous"};
  q.layouts = {quarter, {InstanceRole::kWhole, "DGX-H100", 1, 8, "sglang", "bf16", 8}};
  q.layouts.front().policy.clear();
  for (const int spare : {0, 3}) {
    CAPTURE(spare);
    q.spare = spare;
    const CapacityStudy study = search_capacity(q, {});
    REQUIRE(study.options.size() == 1);
    CHECK(study.options.front().nodes() == fewest_by_exhaustion(q));
  }
}

TEST_CASE("prefill and decode instances are counted apart, and the whole deployment is run") {
  CapacityQuestion q = small_question(150, "ttft.p99<100ms,tpot.p99<20ms");
  q.layouts = {{InstanceRole::kPrefill, "DGX-H100", 1, 8, "sglang", "bf16", 8},
               {InstanceRole::kDecode, "DGX-H100", 1, 8, "sglang", "bf16", 8}};
  q.spare = 1;
  CapacityPlan plan;
  plan.slo = q.options.slo;
  plan.rate = q.rate;
  answer_capacity(plan, q, {});
  REQUIRE(plan.study.options.size() == 1);
  const CapacityOption& option = plan.study.options.front();
  REQUIRE(option.pools.size() == 2);
  CHECK(option.nodes() == option.pools[0].instances + option.pools[1].instances + 2);  // a spare of each
  REQUIRE(option.whole);
  CHECK(option.whole->point.slo.holds);
  CHECK(option.whole->point.offered == q.rate);
  // Its share: six demands, slower steps, two skews. One that is lost has its spare.
  const DeploymentShare share = share_of(option.pools);
  const auto named = [&](const std::string& what) {
    const auto found = std::find_if(option.what_ifs.begin(), option.what_ifs.end(),
                                    [&](const CapacityWhatIf& asked) { return asked.what == what; });
    REQUIRE(found != option.what_ifs.end());
    return found->answer.point;
  };
  CHECK(option.what_ifs.size() == 9);
  CHECK(named("steps 10 % longer").offered == doctest::Approx(q.rate / share.one_in));
  CHECK(named("demand +50 %").offered == doctest::Approx(1.5 * q.rate / share.one_in));
  // All GPUs and links at 1 / 1.099 of their speed: gaps between tokens are longer, by at most as much.
  const double tpot = named("steps 10 % longer").tpot_s.mean / option.answer.point.tpot_s.mean;
  CHECK(tpot > 1.02);
  CHECK(tpot < 1.13);
  CHECK(named("experts half again as skewed").fingerprint != named("experts loaded evenly").fingerprint);
}

TEST_CASE("a share has as many prefill instances for each decode one as the whole deployment") {
  const CapacityDesign design;
  for (const auto& [prefill, decode, one_in] : {std::tuple{3, 2, 1}, std::tuple{1, 2, 1}, std::tuple{6, 4, 2},
                                                std::tuple{4, 2, 2}, std::tuple{5, 5, 5}, std::tuple{1, 1, 1}}) {
    const DeploymentShare share = share_of({{design, prefill}, {design, decode}});
    CHECK(share.one_in == one_in);
    CHECK(share.pools[0].instances * one_in == prefill);
    CHECK(share.pools[1].instances * one_in == decode);
  }
  CHECK(share_of({{design, 7}}).one_in == 7);
}

// One prefill instance beside two decode ones. Its prompts queue at the whole rate; at half of it p99 of TTFT is half as
// long, so bounds between both, and between prompts alone and beside answers, tell what was asked.
TEST_CASE("prefill and decode apart are judged in their ratio, prefill instances as busy as in the deployment") {
  CapacityQuestion q = small_question(315, "ttft.p99<100ms,tpot.p99<5ms");
  q.settings = {"requests={kind: poisson, rate: 100/s, count: 400, input_tokens: 1024, output_tokens: 256}"};
  q.most_requests = 3000;  // five times those in the system
  q.policies = {"contiguous"};
  q.layouts = {{InstanceRole::kPrefill, "DGX-H100", 1, 8, "sglang", "bf16", 8},
               {InstanceRole::kDecode, "DGX-H100", 1, 8, "sglang", "bf16", 8}};
  const auto instances = [](const CapacityOption& option) {
    return std::pair(option.pools.front().instances, option.pools.back().instances);
  };
  const CapacityStudy study = search_capacity(q, {});
  REQUIRE(study.options.size() == 1);
  const CapacityOption& option = study.options.front();
  CAPTURE(instances(option).first);
  CAPTURE(instances(option).second);
  REQUIRE(instances(option) == std::pair(1, 2));
  CapacityControl control;
  CapacityRuns runs(q, control);
  const double ttft = option.answer.point.ttft_s.p99,
               whole = runs.ask(option.pools, 1, option.alone, AskedFor::kDeployment).point.ttft_s.p99,
               halved = runs.ask({{option.pools[0].design, 1}, {option.pools[1].design, 1}}, 2, option.alone)
                            .point.ttft_s.p99;
  CHECK(option.answer.point.offered == q.rate);
  CHECK(ttft == doctest::Approx(whole).epsilon(0.05));
  CHECK(ttft > 1.5 * halved);
  // Prompts alone hold it, prompts beside answers do not: another prefill instance is needed.
  const CapacityPool prefill{option.pools[0].design, 1};
  const double prompts =
      runs.ask({prefill, {option.pools[1].design, 1}}, 1, option.alone, AskedFor::kPrompts).point.ttft_s.p99;
  REQUIRE(prompts < ttft);
  q.options.slo = parse_slo(fmt::format("ttft.p99<{}ms,tpot.p99<5ms", 1e3 * (prompts + 3 * ttft) / 4));
  const CapacityStudy tighter = search_capacity(q, {});
  REQUIRE(tighter.options.size() == 1);
  CHECK(instances(tighter.options.front()) == std::pair(2, 2));
  CHECK(std::any_of(tighter.close.begin(), tighter.close.end(),
                    [&](const CapacityOption& close) { return instances(close) == std::pair(1, 2); }));
}

TEST_CASE("an SLO without a bound of prompts leaves prefill instances to their steady state") {
  for (const char* slo : {"tpot.p99<50ms", "tpot.p99<50ms,ttft.p99<500ms"}) {
    CAPTURE(slo);
    CapacityQuestion q = small_question(100, slo);
    q.layouts = {{InstanceRole::kPrefill, "DGX-H100", 1, 8, "sglang", "bf16", 8},
                 {InstanceRole::kDecode, "DGX-H100", 1, 8, "sglang", "bf16", 8}};
    CHECK(search_capacity(q, {}).options.size() == 1);
  }
}

TEST_CASE("decode instances come beside prefill ones with their own engine, dtype and settings") {
  CapacityQuestion q = small_question(100, "ttft.p99<500ms,tpot.p99<50ms");
  q.policies = {"contiguous"};
  q.layouts.clear();
  const auto with = [](InstanceRole role, const char* setting) {
    return CapacityDesign{role, "DGX-H100", 1, 8, "sglang", "bf16", 8, {setting}};
  };
  const char *less = "memory.static_fraction=0.3", *more = "memory.static_fraction=0.8";
  for (const char* setting : {less, more}) {
    q.layouts.push_back(with(InstanceRole::kPrefill, setting));
  }
  q.layouts.push_back(with(InstanceRole::kDecode, more));
  q.layouts.push_back(with(InstanceRole::kDecode, "memory.static_fraction=0.5"));  // that no prefill instance has
  const CapacityStudy study = search_capacity(q, {});
  REQUIRE(study.options.size() == 1);
  for (const CapacityPool& pool : study.options.front().pools) {
    CHECK(pool.design.settings == std::vector<std::string>{more});
  }
  REQUIRE(study.rows.size() == 4);
  CHECK(study.rows.back().status == CapacityStatus::kFails);
  CHECK(study.rows.back().reason.find("no prefill instances") != std::string::npos);
  CHECK_FALSE(study.rows.back().answer);
}

TEST_CASE("a long answer is not a hopeless one") {
  // 60 requests arrive within a second, and each takes 20,000 output tokens: twice that and 30 s are over before.
  CapacityQuestion q = small_question(100, "tpot.mean<1s");
  q.settings = {"requests={kind: poisson, rate: 100/s, count: 60, input_tokens: 128, output_tokens: 20000}"};
  q.first_requests = q.most_requests = 60;
  CapacityDesign design = q.layouts[1];
  design.policy = "contiguous";
  const CapacityControl control;
  CapacityRuns runs(q, control);
  const CapacityAnswer alone = runs.alone({{design, 1}}), answer = runs.ask({{design, 1}}, 1, alone);
  CHECK(answer.point.e2e_s.mean > 2 * 1 + 30);  // it was run to its end
  CHECK(answer.point.e2e_s.mean > alone.point.e2e_s.mean);
}

TEST_CASE("a request that is alone is the shortest of a trace, so that no long ones reject what others hold") {
  const test::TempDir dir;
  std::string trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  for (int i = 0; i < 300; ++i) {
    trace += fmt::format("2024-05-10 10:{:02}:{:02}.0000000,{},8\n", i / 60, i % 60, i < 3 ? 20'000 : 200);
  }
  std::ofstream(dir / "trace.csv") << trace;
  CapacityQuestion q = small_question(5, "ttft.p90<100ms");
  q.settings = {fmt::format("requests={{kind: azure_csv, path: {}}}", (dir / "trace.csv").string())};
  q.policies = {"contiguous"};
  q.layouts.resize(1);
  const CapacityStudy study = search_capacity(q, {});
  REQUIRE(study.options.size() == 1);
  CHECK(study.rows.front().alone.input_tokens == 200);
}

TEST_CASE("what comes nearest is not an overloaded design") {
  CapacityRow overloaded;
  overloaded.answer.emplace();
  CapacityRow misses = overloaded;
  misses.design.nodes = 2;
  misses.answer->point.slo.excess = 0.05;  // of 5 % more than allowed; of what is overloaded it is 0
  misses.answer->point.ttft_s.p99 = 1.05;
  const auto nearest = nearest_of({overloaded, misses, overloaded}, parse_slo("ttft.p99<1s"));
  REQUIRE(nearest);
  CHECK(nearest->design.nodes == 2);
}

TEST_CASE("a name that no design can have is bad input, not a design that does not fit") {
  CapacityQuestion q = small_question(100, "ttft.p99<60ms");
  q.policies = {"contiguous", "eplbb"};
  CHECK_THROWS_AS(check_values(q), InputError);
  q.policies = {"contiguous"};
  q.layouts.front().engine = "sglnag";
  CHECK_THROWS_AS(check_values(q), InputError);
}

TEST_CASE("threads do not change what a capacity search finds") {
  CapacityQuestion q = small_question(150, "ttft.p99<60ms");
  q.layouts.push_back({InstanceRole::kWhole, "DGX-H200", 1, 8, "sglang", "bf16", 8});
  const auto told = [&](std::size_t threads) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    std::string out;
    for (const CapacityRow& row : search_capacity(q, {}).rows) {
      out += name_of(row.design) + std::string(name_of(row.status)) + row.reason + std::to_string(row.instances) +
             (row.answer ? row.answer->point.fingerprint : "") + "\n";
    }
    return out;
  };
  CHECK(told(1) == told(3));
}

TEST_CASE("a request that alone breaks the SLO is the reason, for every policy of the layout") {
  CapacityQuestion q = small_question(10, "ttft.mean<1us");
  q.layouts.resize(1);
  const CapacityStudy study = search_capacity(q, {});
  CHECK(study.options.empty());
  REQUIRE(study.rows.size() == 2);
  for (const CapacityRow& row : study.rows) {
    CHECK(row.status == CapacityStatus::kAlone);
    CHECK(row.reason.find("a request that is alone takes") != std::string::npos);
  }
  REQUIRE(study.nearest);
}

// The search against brute force: every deployment of a space, the cheapest first, run as a whole with its router and
// every step's draw until one holds. Seven spaces take minutes, so they run only when asked for:
//   study_tests --no-skip --test-case='*seven spaces*'
// experiments/capacity/README.md has the table.
namespace {

struct TrustSpace {
  const char* name;
  const char* slo;
  double rate;
  int input_tokens, output_tokens, spare;
  bool apart;
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
    if (space.apart && std::string_view(node) == "p5.48xlarge") {
      continue;
    }
    for (const int size : {1, 2}) {
      for (const int tp : {1, 4, 8}) {
        for (const InstanceRole role : space.apart ? std::vector{InstanceRole::kPrefill, InstanceRole::kDecode}
                                                   : std::vector{InstanceRole::kWhole}) {
          if (!space.apart || (size == 1 && tp != 4)) {
            q.layouts.push_back({role, node, size, tp, "sglang_0_4_10", "bf16", 8 * size});
          }
        }
      }
    }
  }
  return q;
}

double price(const CapacityDesign& design) { return price_of(design.node, {})->usd_per_hour; }

// Every deployment of the space, the cheapest first.
std::vector<std::vector<CapacityPool>> deployments_of(const CapacityQuestion& q) {
  std::vector<std::vector<CapacityPool>> out;
  const auto nodes = [&](const CapacityPool& pool) { return (pool.instances + q.spare) * pool.design.nodes; };
  const auto cost = [&](const std::vector<CapacityPool>& pools) {
    return price(pools.front().design) * (nodes(pools.front()) + (pools.size() > 1 ? nodes(pools.back()) : 0));
  };
  const auto each_pool = [&](InstanceRole role, const std::string& policy, int most, const auto& add) {
    for (CapacityDesign design : q.layouts) {
      design.policy = policy;
      for (int count = 1; design.role == role && nodes({design, count}) <= most; ++count) {
        add(CapacityPool{design, count});
      }
    }
  };
  for (const std::string& policy : q.policies) {
    each_pool(InstanceRole::kWhole, policy, q.most_nodes, [&](const CapacityPool& pool) { out.push_back({pool}); });
    each_pool(InstanceRole::kPrefill, policy, q.most_nodes, [&](const CapacityPool& prefill) {
      each_pool(InstanceRole::kDecode, policy, q.most_nodes - nodes(prefill), [&](const CapacityPool& decode) {
        out.push_back({prefill, decode});
      });
    });
  }
  std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) { return cost(a) < cost(b); });
  return out;
}

// The first deployment that holds with all its instances.
std::vector<CapacityPool> cheapest_of(const CapacityQuestion& q, const std::vector<std::vector<CapacityPool>>& all) {
  const CapacityControl control;
  CapacityRuns runs(q, control);
  for (const std::vector<CapacityPool>& pools : all) {
    const CapacityAnswer answer = runs.ask(pools, 1, runs.alone(pools), AskedFor::kDeployment);
    if (answer.refused.empty() && answer.point.slo.holds) {
      return pools;
    }
  }
  return {};
}

double cost_of_all(const CapacityQuestion& q, const std::vector<CapacityPool>& pools) {
  CapacityOption option;
  option.pools = pools;
  option.spare = q.spare;
  return option.nodes() * price(pools.front().design);
}

}  // namespace

TEST_CASE("the recommended deployment costs what the cheapest of a small space does by brute force") {
  const CapacityQuestion q = [] {
    CapacityQuestion out = question_of({"", "ttft.p99<60ms", 400, 512, 8, 0, false});
    out.policies = {"contiguous", "eplb"};
    out.most_nodes = 4;
    out.most_requests = 400;
    std::erase_if(out.layouts, [](const CapacityDesign& d) { return d.nodes > 1 || d.attention_tp == 4; });
    return out;
  }();
  const auto all = deployments_of(q);
  CHECK(all.size() == 32);  // 1 to 4 instances of two layouts of each node, under two policies
  const std::vector<CapacityPool> best = cheapest_of(q, all);
  REQUIRE_FALSE(best.empty());
  CapacityPlan plan;
  plan.slo = q.options.slo;
  plan.rate = q.rate;
  answer_capacity(plan, q, {});
  REQUIRE(plan.feasible);
  CHECK(plan.costs[plan.order.front()].usd_per_hour == doctest::Approx(cost_of_all(q, best)));
  CHECK(plan.study.options[plan.order.front()].whole->point.slo.holds);
}

TEST_CASE("the recommended deployment costs what the cheapest of seven spaces does by brute force" * doctest::skip()) {
  constexpr TrustSpace kSpaces[] = {
      {"prompts, p99", "ttft.p99<60ms", 800, 1024, 16, 0, false},
      {"prompts, mean", "ttft.mean<40ms,tpot.mean<8ms", 800, 1024, 16, 0, false},
      {"answers, p99", "tpot.p99<5ms", 200, 256, 128, 0, false},
      {"both", "ttft.p99<150ms,tpot.p99<6ms", 150, 2048, 64, 0, false},
      {"each request", "ttft<100ms,tpot<8ms,attainment>=0.95", 400, 1024, 32, 0, false},
      {"a spare", "ttft.p99<60ms", 600, 1024, 16, 1, false},
      {"prefill and decode apart", "ttft.p99<80ms,tpot.p99<5ms", 200, 1024, 32, 0, true},
  };
  for (const TrustSpace& space : kSpaces) {
    CAPTURE(space.name);
    const CapacityQuestion q = question_of(space);
    const auto all = deployments_of(q);
    const std::vector<CapacityPool> best = cheapest_of(q, all);
    REQUIRE_FALSE(best.empty());
    const double least = cost_of_all(q, best);
    CapacityPlan plan;
    plan.slo = q.options.slo;
    plan.rate = q.rate;
    answer_capacity(plan, q, {});
    REQUIRE(plan.feasible);
    const double found = plan.costs[plan.order.front()].usd_per_hour;
    fmt::print("| {} | `{}` | {} | {:.2f} | {:.2f} | {:.0f} % | {} |\n", space.name, space.slo, all.size(), least,
               found, 100 * (found / least - 1), plan.study.runs);
    std::fflush(stdout);
    CHECK(all.size() >= 300);
    CHECK(found <= 1.02 * least);
    CHECK(found >= least / 1.02);  // full runs bear it out
  }
}

}  // namespace epsim
