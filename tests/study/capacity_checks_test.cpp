// What the answer of `epsim capacity` rests on: steps that are slower on GPU and host, and power where it is asked for; and what a deployment costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>

#include "sim/study/capacity.h"
#include "sim/study/capacity_cost.h"
#include "sim/study/capacity_runs.h"
#include "sim/study/job_runner.h"
#include "sim/study/job_store.h"
#include "tests/support/paths.h"

using namespace epsim;

namespace {

CapacityQuestion small_question(double rate, int output_tokens, const std::string& slo) {
  CapacityQuestion q;
  q.model = "olmoe-1b-7b";
  q.rate = rate;
  q.settings = {"requests={kind: poisson, rate: 100/s, count: 400, input_tokens: 1024, output_tokens: " +
                std::to_string(output_tokens) + "}"};
  q.options.slo = parse_slo(slo);
  q.options.min_requests_ratio = 5;
  q.policies = {"contiguous"};
  q.most_nodes = 8;
  q.first_requests = q.most_requests = 400;
  q.seeds = 0;
  q.layouts = {{InstanceRole::kWhole, "DGX-H100", 1, 8, "sglang", "bf16", 8}};
  return q;
}

TEST_CASE("a deployment's cost is its nodes' prices over the tokens that it serves") {
  CapacityOption option;
  option.pools = {{{InstanceRole::kWhole, "p5en.48xlarge", 2, 8, "sglang", "fp8", 16}, 3}};
  option.answer.input_tokens = 3000;
  option.answer.output_tokens = 1000;
  option.answer.busy = 0.5;
  CapacityPlan plan;
  plan.rate = 5;
  CapacityPrices& prices = plan.prices;
  const CapacityCost cost = cost_of(option, plan);
  CHECK(cost.gpus == 48);
  CHECK(cost.usd_per_hour == doctest::Approx(6 * 63.296));  // AWS on demand
  CHECK(cost.usd_per_million == doctest::Approx(6 * 63.296 / 3600 / (5 * 4000) * 1e6));
  CHECK(cost.usd_per_million_output == doctest::Approx(4 * cost.usd_per_million));
  CHECK(cost.usd_per_request == doctest::Approx(6 * 63.296 / 3600 / 5));
  // A node: 1271.6 + 405 W always, 835 W of fans and 8 GPUs of 700 W, which idle at a tenth; PUE 1.3.
  const double idle = 1.3 * (1271.6 + 405 + 560), busy = 1.3 * (1271.6 + 405 + 835 + 5600);
  CHECK(cost.watts == doctest::Approx(6 * (idle + busy) / 2));
  CHECK(cost.joules_per_token == doctest::Approx(cost.watts / 20000));
  prices.own = {parse_price("p5en.48xlarge=31.6usd/h")};
  prices.usd_per_kwh = 0.1;
  CHECK(cost_of(option, plan).usd_per_hour == doctest::Approx(6 * 31.6 + cost.watts / 1000 * 0.1));
  // Clients in a closed loop send what they are answered: 2 requests/s to an instance, of which there are 3.
  CapacityPlan loop = plan;
  loop.in_flight = 30;
  option.answer.point.completed = 2;
  CHECK(cost_of(option, loop).usd_per_request == doctest::Approx(cost_of(option, plan).usd_per_request * 5 / 6));
  prices.pue = 1.04;
  CHECK(cost_of(option, plan).watts == doctest::Approx(cost.watts * 1.04 / 1.3));
  prices.terms = "3y";
  prices.own.clear();
  CHECK(price_of("p5en.48xlarge", prices)->usd_per_hour == 27.34387);
  CHECK_FALSE(price_of("grace-8x3090", prices));
  prices.terms = "ownership";  // of A100s none is known; rent on demand is no stand-in
  CHECK(price_of("p5en.48xlarge", prices)->usd_per_hour == doctest::Approx(8 * 1.59));
  CHECK_FALSE(price_of("p4de.24xlarge", prices));
  CHECK_THROWS_AS(parse_price("p5en.48xlarge=31.6"), InputError);
}

}  // namespace

// Eager steps of prompts are bound by the host: kernels x launch time. A fault slows GPUs and links down only.
TEST_CASE("slower steps are slower on the host, too") {
  const CapacityQuestion q = small_question(50, 16, "ttft.p99<200ms");
  CapacityPlan plan;
  plan.slo = q.options.slo;
  plan.rate = q.rate;
  answer_capacity(plan, q, {});
  REQUIRE(plan.study.options.size() == 1);
  const CapacityOption& option = plan.study.options.front();
  const auto slower = std::find_if(option.what_ifs.begin(), option.what_ifs.end(),
                                   [](const CapacityWhatIf& asked) { return asked.what == kSlower; });
  REQUIRE(slower != option.what_ifs.end());
  CHECK(slower->share.pools[0].design.settings.back() == "serving.launch_time=37.0363us");  // 33.7 us x 1.099
  // Of a request, 6.9 ms and 1024 x 2.3 us pass outside of steps, which the rest of its TTFT is made of, and of waiting.
  const double outside = 6.9e-3 + 1024 * 2.3e-6, usual = option.answer.point.ttft_s.mean;
  CHECK(slower->answer.point.ttft_s.mean - outside > 1.09 * (usual - outside));
}

TEST_CASE("where power counts, prefill and decode apart may take as many nodes as together") {
  CapacityQuestion q = small_question(400, 64, "ttft.p99<200ms,tpot.p99<20ms");
  q.layouts.front().attention_tp = 1;
  for (const InstanceRole role : {InstanceRole::kPrefill, InstanceRole::kDecode}) {
    q.layouts.push_back({role, "DGX-H100", 1, 8, "sglang", "bf16", 8});
  }
  const CapacityStudy by_nodes = search_capacity(q, {});
  REQUIRE(by_nodes.options.size() == 1);
  q.power_counts = true;
  const CapacityStudy by_power = search_capacity(q, {});
  REQUIRE(by_power.options.size() == 2);
  CHECK(by_power.options[0].nodes() == by_nodes.options[0].nodes());
  CHECK(by_power.options[1].pools.size() == 2);
  CHECK(by_power.options[1].nodes() <= by_nodes.options[0].nodes());
}

// One node holds with any attention TP. The wider starts the search: a request that is alone is the fastest on it. With
// narrower attention TP each GPU attends to its own requests and no layer ends in an all-reduce of all tokens.
TEST_CASE("of designs on as many nodes, the answer keeps clearest of its bounds, or draws least") {
  CapacityQuestion q = small_question(100, 64, "ttft.p99<200ms,tpot.p99<20ms");
  q.layouts.push_back(q.layouts.front());
  q.layouts.back().attention_tp = 1;
  q.most_requests = 900;
  for (const bool power : {false, true}) {
    CAPTURE(power);
    q.power_counts = power;
    const CapacityStudy study = search_capacity(q, {});
    REQUIRE(study.rows.size() == 2);
    const auto of_status = [&](CapacityStatus status) {
      return std::find_if(study.rows.begin(), study.rows.end(),
                          [&](const CapacityRow& row) { return row.status == status; });
    };
    const auto best = of_status(CapacityStatus::kBest), other = of_status(CapacityStatus::kHolds);
    REQUIRE(best != study.rows.end());
    REQUIRE(other != study.rows.end());
    CHECK(best->instances == other->instances);
    CHECK(best->design.attention_tp == 1);
    CHECK(best->answer->busy == doctest::Approx(other->answer->busy).epsilon(0.01));  // power does not tell them apart
    CHECK(strain_of(best->answer->point, q.options.slo) < strain_of(other->answer->point, q.options.slo) - 0.05);
    CHECK(other->reason.starts_with("holds on 1 node, as 1 x DGX-H100, attention TP 1"));
    CHECK(other->reason.ends_with(" %"));  // of the bounds, and nothing of what it has room for
  }
  // A bound of each request does not tell them apart either: the first stays.
  q.power_counts = false;
  q.options.slo = parse_slo("ttft<36ms,attainment>=0.3");
  const CapacityStudy study = search_capacity(q, {});
  REQUIRE(study.rows.size() == 2);
  const auto refused = std::find_if(study.rows.begin(), study.rows.end(),
                                    [](const CapacityRow& row) { return row.status == CapacityStatus::kBound; });
  REQUIRE(refused != study.rows.end());
  CHECK(refused->reason.ends_with("fewer nodes than the best leave room for 0"));
}

// In a run of prompts answers have two tokens: what such an answer takes is no figure of prefill instances, though its
// TPOT is closer to a tight bound than their TTFT.
TEST_CASE("prefill instances on as many nodes are compared by TTFT") {
  CapacityQuestion q = small_question(60, 64, "ttft.p99<100ms,tpot.p99<4ms");
  q.most_requests = 900;
  q.layouts.clear();
  for (const InstanceRole role : {InstanceRole::kPrefill, InstanceRole::kDecode}) {
    for (const int tp : {1, 8}) {
      q.layouts.push_back({role, "DGX-H100", 1, tp, "sglang", "bf16", 8});
    }
  }
  const CapacityStudy study = search_capacity(q, {});
  const auto prefill = [&](int tp) {
    return *std::find_if(study.rows.begin(), study.rows.end(), [&](const CapacityRow& row) {
      return row.design.role == InstanceRole::kPrefill && row.design.attention_tp == tp;
    });
  };
  const CapacityRow narrow = prefill(1), wide = prefill(8);
  REQUIRE(narrow.instances == wide.instances);
  REQUIRE(wide.answer->point.ttft_s.p99 < 0.95 * narrow.answer->point.ttft_s.p99);
  REQUIRE(wide.answer->point.tpot_s.p99 > 1.05 * narrow.answer->point.tpot_s.p99);
  CHECK(wide.status == CapacityStatus::kBest);
  CHECK(narrow.status == CapacityStatus::kHolds);
}

TEST_CASE("the strain is the logarithm of the worst ratio, however far from the bounds") {
  const Slo slo = parse_slo("ttft.p99<1s,tpot.mean<30ms");
  LoadPoint point;
  CHECK(strain_of(point, slo) == -std::numeric_limits<double>::infinity());  // no request ended
  point.ttft_s.p99 = 0.05;                                                   // a twentieth of its bound
  point.tpot_s.mean = 0.003;                                                 // a tenth
  CHECK(strain_of(point, slo) == doctest::Approx(std::log(0.1)));
}

// Its claim tells that the question is about to be asked; the scenario is read after that, and then run.
TEST_CASE("a run of requests alone that is interrupted is no answer") {
  const test::TempDir place;
  const CapacityQuestion q = small_question(50, 2000, "ttft.p99<200ms");
  const JobStore store(place.path() / "study", {"test study", "study.json", "answers"}, "{}", false);
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    const auto claimed = [&] {
      std::error_code ignored;
      for (const auto& entry : std::filesystem::directory_iterator(place.path() / "study/answers", ignored)) {
        if (entry.path().extension() == ".claim") {
          return true;
        }
      }
      return false;
    };
    while (!claimed()) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    stop = true;
  });
  const CapacityControl control{.stop = &stop, .store = &store};
  CapacityRuns runs(q, control);
  CapacityDesign design = q.layouts.front();
  design.policy = "contiguous";
  CHECK_THROWS_AS(runs.alone({{design, 1}}), StudyInterrupted);
  watcher.join();
  const CapacityControl later{.store = &store};
  CHECK(CapacityRuns(q, later).alone({{design, 1}}).point.ttft_s.count == 3);  // not what was kept of the first
}
