// What `epsim capacity` says of an answer.
#include "sim/report/capacity_report.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/report/capacity_words.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

CapacityOption option_on(const char* node, int instances) {
  CapacityOption option;
  option.pools = {{{InstanceRole::kWhole, node, 1, 8, "sglang", "fp8", 8}, instances}};
  option.answer.input_tokens = option.answer.output_tokens = 100;
  option.answer.point.ttft_s.count = 400;
  option.answer.point.ttft_s.p99 = 0.95;
  option.answer.point.slo.holds = option.answer.point.slo.decided = true;
  return option;
}

CapacityPlan plan_of(const char* slo, std::vector<CapacityOption> options) {
  CapacityPlan plan;
  plan.slo = parse_slo(slo);
  plan.rate = 5;
  plan.study.options = std::move(options);
  decide(plan);
  return plan;
}

}  // namespace

TEST_CASE("terms of payment under which another node costs least are named") {
  // 8 x 55.04 < 7 x 63.296 on demand, and so with every commitment; to own, 64 x 1.55 > 56 x 1.59.
  const CapacityPlan plan = plan_of("ttft<1s", {option_on("p5.48xlarge", 8), option_on("p5en.48xlarge", 7)});
  CHECK(plan.study.options[plan.order.front()].node() == "p5.48xlarge");
  test::check_contains(why_words(plan),
                       {"another kind of node is cheapest: 7 x p5en.48xlarge (89.04 usd/h, ", " ownership, "});
  // What it costs to own A100s is not known, so that nothing can be cheaper: that of H200s is not named.
  const CapacityPlan a100 = plan_of("ttft<1s", {option_on("p4de.24xlarge", 4), option_on("p5en.48xlarge", 2)});
  CHECK(a100.study.options[a100.order.front()].node() == "p4de.24xlarge");
  CHECK(why_words(a100).find("another kind of node is cheapest") == std::string::npos);
}

TEST_CASE("a verdict names every term that fails, the furthest off first") {
  const CapacityPlan plan = plan_of("ttft.p99<2s,tpot.mean<30ms,e2e.p99<9s", {option_on("p5.48xlarge", 1)});
  CapacityAnswer answer;
  SloScore& score = answer.point.slo;
  answer.point.requests = 400;
  score.excess = 0.3;
  score.limit = 1;
  score.decided = true;
  // 5 % of the requests are late where 1 % may be; 31 ms of 30; none is late.
  score.terms = {{0.05, 0.01, 0}, {0.031, 0, 0}, {0, 0.01, 0}};
  CHECK(verdict_of(plan, answer) == "tpot.mean<30ms, ttft.p99<2s fail");
  score.terms[0].value = 0.01;
  CHECK(verdict_of(plan, answer) == "tpot.mean<30ms fails");
}

TEST_CASE("a cheaper deployment beyond the power limit is said to be that") {
  CapacityPlan plan = plan_of("ttft<1s", {option_on("p5en.48xlarge", 2), option_on("p4de.24xlarge", 4)});
  CHECK(plan.costs[plan.order.front()].price->usd_per_hour == 27.44705);  // 4 x 27.4 < 2 x 63.3
  // Nodes that idle draw 1.3 x (1271.6 + 405 + a tenth of 8 GPUs of 400 or 700 W): four 10.4 kW, two 5.8 kW.
  plan.most_watts = 7'000;
  decide(plan);
  REQUIRE(plan.feasible);
  test::check_contains(capacity_text(plan), {"is 13.3 % cheaper, but beyond the power limit", "a higher power limit"});
}

TEST_CASE("beyond a power limit the deployment that draws least is named, though another is cheaper") {
  CapacityPlan plan = plan_of("ttft<1s", {option_on("p5en.48xlarge", 2), option_on("p4de.24xlarge", 4)});
  plan.most_watts = 5'000;  // idle nodes draw 5.8 and 10.4 kW
  decide(plan);
  REQUIRE_FALSE(plan.feasible);
  test::check_contains(infeasible_words(plan), {"the nearest", "2 x p5en.48xlarge", "the limit is 5.000 kW"});
}

TEST_CASE("of two deployments at one price the second takes more nodes, and wins at any lower price") {
  CapacityPlan plan = plan_of("ttft<1s", {option_on("p5en.48xlarge", 2), option_on("p4de.24xlarge", 4)});
  plan.prices.own = {parse_price("p5en.48xlarge=20usd/h"), parse_price("p4de.24xlarge=10usd/h")};
  decide(plan);
  test::check_contains(capacity_text(plan),
                       {"4 x p4de.24xlarge", "costs the same, and takes more nodes.", "any lower price"});
}

// No request of option_on() has a second token.
TEST_CASE("where no answer has a second token, the time per output token is not known, rather than zero") {
  CapacityOption option = option_on("p5en.48xlarge", 2);
  option.what_ifs.push_back({"an instance lost", 0, {}, option.answer});
  const CapacityPlan plan = plan_of("ttft.p99<1s", {option});
  const auto json = nlohmann::json::parse(capacity_json(plan, "0.1.0"));
  for (const char* table : {"deployments", "what_ifs"}) {
    CHECK(json.at(table).at(0).at("ttft_p99_ms") == 950);
    CHECK(json.at(table).at(0).at("tpot_p99_ms").is_null());
  }
  const std::string text = capacity_text(plan);
  CHECK(text.substr(text.find("an instance lost    ")).starts_with("an instance lost     950.0         -  holds"));
}

TEST_CASE("where no request is late, none is said to be, and how many may be") {
  CapacityOption option = option_on("p5en.48xlarge", 2);
  // Of 2000 none is late, and 3 / 2000 = 0.15 % may be; five are 0.25 %.
  option.answer.point.slo.terms = {{0, 0.01, 3.0 / 2000}, {5.0 / 2000, 0.01, 0.002}};
  const std::string text = capacity_text(plan_of("ttft.p99<1s, e2e.p99<9s", {option}));
  test::check_contains(text, {"none (< 0.15)", "0.25 +- 0.20"});
  CHECK(text.find("0.02 ") == std::string::npos);
}

TEST_CASE("a what-if that is refused is said not to run") {
  CapacityOption option = option_on("p5en.48xlarge", 2);
  option.what_ifs.push_back({"an instance lost", 0, {}, {}});
  option.what_ifs.back().answer.refused = "the weights do not fit";
  test::check_contains(why_words(plan_of("ttft<1s", {option})), {"Fragile: an instance lost: cannot run."});
}

TEST_CASE("what fails first as demand grows is told, and a skew that turns the answer makes it fragile") {
  CapacityOption option = option_on("p5en.48xlarge", 2);
  for (const double growth : {0.1, 0.2}) {
    CapacityWhatIf& asked = option.what_ifs.emplace_back();
    asked.what = growth < 0.15 ? "demand +10 %" : "demand +20 %";
    asked.growth = growth;
    asked.answer = option.answer;
    asked.answer.point.requests = 400;
  }
  option.what_ifs.push_back({"experts half again as skewed", 0, {}, option.what_ifs[1].answer});
  option.what_ifs.push_back({"an instance lost", 0, {}, option.what_ifs[1].answer});
  for (const std::size_t fails : {1, 2}) {
    option.what_ifs[fails].answer.point.slo = {
        .attainment = 0, .excess = 0.2, .excess_half_width = 0, .limit = 0, .decided = true};
  }
  const CapacityPlan plan = plan_of("ttft.p99<1s", {option});
  test::check_contains(why_words(plan) + capacity_text(plan),
                       {"Demand may grow by 10 %; at 20 % ttft.p99<1s fails.",
                        "Fragile: experts half again as skewed: ttft.p99<1s fails.",
                        "The recommended deployment also holds with: an instance", "demand +20 %", "950.0", "holds"});
}

TEST_CASE("a verdict that more requests could turn is called that") {
  CapacityOption option = option_on("p5en.48xlarge", 2);
  option.what_ifs.push_back({"an instance lost", 0, {}, option.answer});
  option.what_ifs.back().answer.point.requests = 400;
  option.what_ifs.back().answer.point.slo.decided = false;
  option.answer.extrapolated = 0.79;
  option.answer.carried_over = {"kernels (b300): from b200"};
  test::check_contains(
      why_words(plan_of("ttft.p99<1s", {option})),
      {"Too close to tell: an instance lost.", "79 % of its steps' time is extrapolated: kernels (b300): from b200."});
}

TEST_CASE("an option that holds where the first fails wins there") {
  CapacityOption first = option_on("p4de.24xlarge", 4), other = option_on("p5en.48xlarge", 2);
  CapacityWhatIf asked{"demand +30 %", 0.3, {}, first.answer};
  other.what_ifs = {asked};
  asked.answer.point.slo = {.attainment = 0, .excess = 0.2, .excess_half_width = 0, .limit = 0, .decided = true};
  first.what_ifs = {asked};
  // 4 x 27.44705 over two nodes is 54.89.
  test::check_contains(capacity_text(plan_of("ttft.p99<1s", {first, other})),
                       {"a price below 54.89 usd/h a node", "less than now; or demand +30 %"});
}

TEST_CASE("a price at which another wins leaves what its power costs") {
  CapacityPlan plan = plan_of("ttft.p99<1s", {option_on("p4de.24xlarge", 4), option_on("p5en.48xlarge", 2)});
  plan.prices.usd_per_kwh = 0.5;
  plan.prices.own = {parse_price("p5en.48xlarge=62usd/h")};
  decide(plan);
  const CapacityCost &first = plan.costs[plan.order[0]], &other = plan.costs[plan.order[1]];
  REQUIRE(plan.study.options[plan.order[1]].node() == "p5en.48xlarge");
  const double power = other.watts / 1e3 * 0.5;
  CHECK(other.usd_per_hour == doctest::Approx(2 * 62 + power));
  CHECK(first.usd_per_hour == doctest::Approx(4 * first.price->usd_per_hour));  // rented: its price has power in it
  const double even = (first.usd_per_hour - power) / 2;  // two nodes and their power cost as much as the first then
  test::check_contains(capacity_text(plan), {fmt::format("a price below {:.2f} usd/h a node", even).c_str()});
}

TEST_CASE("where nothing fits, the answer says what comes nearest and what helps") {
  CapacityPlan plan = plan_of("ttft.p99<1s", {});
  const auto add = [&](const char* node, int gpus, std::optional<double> room, const char* reason) {
    plan.study.rows.push_back({.design = {}, .status = CapacityStatus::kDoesNotFit, .reason = reason, .room = room});
    plan.study.rows.back().design.node = node;
    plan.study.rows.back().design.gpus = gpus;
  };
  add("six", 64, std::nullopt, "experts do not divide.");
  test::check_contains(infeasible_words(plan), {"None fits; the largest, ", "six", "experts do not divide.\n"});
  add("small", 64, -20, "lacks 20 GiB.");
  add("medium", 8, -3, "lacks 3 GiB.");
  test::check_contains(infeasible_words(plan), {"None fits; the nearest, ", "medium", "--dtypes of fewer bits help."});
  add("large", 8, 2e6, "request 1 needs 3000500 tokens.");
  add("larger", 8, 1e6, "request 1 needs 3000500 tokens.");
  test::check_contains(infeasible_words(plan), {"large, ", "request 1 needs", "a larger --attention-tp"});
}

// Prefill and decode apart are asked with fewer nodes than one pool takes, so where one node holds nothing is known of
// them; other kinds of node are asked up to the most nodes.
TEST_CASE("where there is one option, the answer says how far the others were asked") {
  CapacityPlan plan = plan_of("ttft.p99<1s", {option_on("p5.48xlarge", 1)});
  const CapacityRow whole{.design = plan.study.options.front().pools.front().design};
  plan.study.rows = {whole};
  test::check_contains(why_words(plan), {"No other kind of node or mode was in the search space."});
  plan.study.rows.push_back(whole);
  plan.study.rows.back().design.role = InstanceRole::kDecode;
  plan.study.rows.back().status = CapacityStatus::kBound;
  CHECK(why_words(plan).find("holds the SLO") == std::string::npos);
  test::check_contains(why_words(plan), {"apart do not hold it with fewer nodes; as many or more were not tried."});
  plan.study.rows.push_back(whole);
  plan.study.rows.back().design.node = "p4de.24xlarge";
  test::check_contains(why_words(plan), {"No other kind of node in the search space holds the SLO. Prefill and"});
}

// Three prefill instances and two decode ones have no smaller share; four and two are twice two and one.
TEST_CASE("the highest rate of prefill and decode apart is that of all their shares") {
  CapacityOption option = option_on("p5en.48xlarge", 2);
  option.pools.insert(option.pools.begin(), option.pools.front());
  option.pools.front().design.role = InstanceRole::kPrefill;
  option.pools.back().design.role = InstanceRole::kDecode;
  option.searches.emplace_back().slo.holds = true;
  option.searches.front().slo.rate = 8;
  for (const auto& [prefill, words] :
       {std::pair{3, "up to 8.000 (one seed)"}, std::pair{4, "up to 16.00 (one seed)"}}) {
    option.pools.front().instances = prefill;
    test::check_contains(why_words(plan_of("ttft.p99<1s", {option})), {words});
  }
}

}  // namespace epsim
