#include "sim/report/ranking.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "tests/report/sample_run.h"

namespace epsim {
namespace {

RunSummary run_with(double requests_per_s, double e2e_mean_ms) {
  RunSummary out;
  out.set("completed_requests", 10);
  out.set("requests_per_s", requests_per_s);
  out.set("e2e_mean_ms", e2e_mean_ms);
  return out;
}

using Order = std::vector<std::size_t>;

}  // namespace

TEST_CASE("more requests per second ranks higher") {
  CHECK(rank_policies(one_seed(std::vector{run_with(2.0, 10), run_with(3.0, 99)})) == Order{1, 0});
}

TEST_CASE("within 1 % the lower mean end-to-end latency ranks higher") {
  // 99 % of 3 is 2.97, which lies between the two.
  CHECK(rank_policies(one_seed(std::vector{run_with(3.0, 20), run_with(2.98, 10)})) == Order{1, 0});
  CHECK(rank_policies(one_seed(std::vector{run_with(3.0, 20), run_with(2.96, 10)})) == Order{0, 1});
}

TEST_CASE("groups of equals are cut from the best, so a chain of small steps does not join them all") {
  // 100 and 99.2 are equal, 98.5 is within 1 % of 99.2 but not of 100, so it ranks below both whatever its latency.
  CHECK(rank_policies(one_seed(std::vector{run_with(98.5, 1), run_with(100, 30), run_with(99.2, 20)})) ==
        Order{2, 1, 0});
}

TEST_CASE("equal in all: the order given; nothing completed: last") {
  CHECK(rank_policies(one_seed(std::vector{run_with(1, 5), run_with(1, 5)})) == Order{0, 1});
  RunSummary none;
  none.set("requests_per_s", 0);
  CHECK(rank_policies(one_seed(std::vector{none, run_with(0.001, 5), none})) == Order{1, 0, 2});
  CHECK(rank_policies({}).empty());
}

TEST_CASE("variants that split a gain rank after the policies, and are shown only where no split stands for them") {
  std::vector runs{run_with(2.0, 10), run_with(3.0, 10), run_with(1.0, 10)};
  runs[0].label = "eplb", runs[1].label = "eplb:kv_free", runs[2].label = "contiguous";
  CHECK(rank_policies(one_seed(runs)) == Order{0, 2, 1});
  CHECK(shown_policies(one_seed(runs)) == Order{0, 2, 1});  // without base there is no split
  runs.push_back(run_with(1.5, 10));
  runs[3].label = "base";
  CHECK(shown_policies(one_seed(runs)) == Order{0, 3, 2});
}

TEST_CASE("a bound ranks after what can be chosen, before variants, and is called one") {
  std::vector runs{run_with(2.0, 10), run_with(4.0, 10), run_with(5.0, 10), run_with(3.0, 10)};
  runs[0].label = "base", runs[1].label = "perfect", runs[2].label = "eplb:kv_free", runs[3].label = "eplb";
  Comparison compared = one_seed(runs);
  CHECK(rank_policies(compared) == Order{1, 3, 0, 2});
  CHECK(ranking_rule(compared) == kRankingRule);
  compared.out_of_reach = {"perfect", "eplb:kv_free"};
  CHECK(rank_policies(compared) == Order{3, 0, 1, 2});
  CHECK(ranking_rule(compared) == std::string(kRankingRule) + " Last, as bounds that no deployment can have: perfect.");
  CHECK(conclusion(compared, 1).find("perfect is a bound, not a policy") != std::string::npos);
  CHECK(conclusion(compared, 3).find("bound") == std::string::npos);
}

TEST_CASE("of a policy that beats a bound the conclusion says why where the figures tell, and else the fact alone") {
  // 3.2 s of experts in 160 decode steps are 20 ms a step, of another policy 3.04 s in as many 19 ms.
  const auto run = [](const char* label, double e2e_ms, double balancedness, double experts_s) {
    RunSummary out = run_with(4, e2e_ms);
    out.label = label;
    out.set("balancedness_mean", balancedness);
    out.set("kv_tokens_per_rank", 2000);
    out.set("kv_full_time_share", 0);
    out.texts[metric("load_counts").index] = "expected";
    StepKindFigures decode{};
    decode.pool = "all";
    decode.kind = StepKind::kDecode;
    decode.steps = 160;
    decode.part_s[static_cast<std::size_t>(LayerPart::kExperts)] = experts_s;
    out.step_kinds = {decode};
    return out;
  };
  const auto words = [](const RunSummary& base, const RunSummary& bound) {
    Comparison compared = one_seed(std::vector{base, bound});
    compared.out_of_reach = {bound.label};
    const std::string text = conclusion(compared, 1);
    const std::size_t first = text.find("oracle cannot"), end = text.find(" KV pool");
    return first < end ? text.substr(first, end - first) : text;
  };
  const std::string fact = "oracle cannot be deployed, and it is not a bound here: base is faster.",
                    small = " In small steps a more even load touches more experts, whose weights have to be read.",
                    room =
                        " base has more KV room (2,000 against 1,330 tokens per rank), and the first request of a "
                        "queue waited for it in 18.9 % of oracle's busy time.";
  const RunSummary base = run("base", 10, 0.8, 3.04);
  CHECK(words(base, run("oracle", 11, 0.9, 3.2)) == fact + small);
  CHECK(words(base, run("oracle", 11, 0.8, 3.2)) == fact);   // uniform loads
  CHECK(words(base, run("oracle", 11, 0.7, 3.2)) == fact);   // as against a policy that acts in every step
  CHECK(words(base, run("oracle", 11, 0.9, 3.04)) == fact);  // its experts take no longer
  RunSummary drawn = base;
  drawn.texts[metric("load_counts").index] = "whole";
  CHECK(words(drawn, run("oracle", 11, 0.9, 3.2)) == fact);
  RunSummary less = run("oracle", 11, 0.7, 3.04);
  less.set("kv_tokens_per_rank", 1330);
  CHECK(words(base, less) == fact);  // no request waited
  less.set("kv_full_time_share", 0.189);
  CHECK(words(base, less) == fact + room);
  RunSummary both = run("oracle", 11, 0.9, 3.2);
  both.set("kv_tokens_per_rank", 1330);
  both.set("kv_full_time_share", 0.189);
  CHECK(words(base, both) == fact + room + small);
  both.set("kv_tokens_per_rank", 2000);
  CHECK(words(base, both) == fact + small);  // both wait, for as much room
}

TEST_CASE("changes are relative to the first run") {
  RunSummary first = run_with(2.0, 400), second = run_with(2.5, 300);
  first.set("kv_tokens_per_rank", 1000);
  second.set("kv_tokens_per_rank", 810);
  first.set("kv_copies_gib_per_gpu", 0);
  second.set("kv_copies_gib_per_gpu", 4.758);
  const auto changed = [&](const char* name) { return change(metric(name), first, second); };
  CHECK(changed("requests_per_s") == 0.25);
  CHECK(changed("e2e_mean_ms") == -0.25);
  CHECK(changed("kv_tokens_per_rank") == doctest::Approx(-0.19));
  CHECK(changed("kv_copies_gib_per_gpu") == 4.758);
  CHECK(std::isnan(changed("itl_mean_ms")));
}

TEST_CASE("the conclusion says what is gained and what it costs in KV cache") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  base.set("kv_copies_gib_per_gpu", 0);
  base.set("kv_tokens_per_rank", 2000);
  eplb.set("ttft_mean_ms", 300);  // 300 / 375 - 1 = -20 %
  eplb.set("balancedness_mean", 0.9);
  CHECK(
      conclusion(one_seed(std::vector{base, eplb}), 1) ==
      "eplb against base: throughput 0.0 % (0.5000 against 0.5000 requests/s), mean TTFT -20.0 % (300.0 against 375.0 "
      "ms), mean ITL 0.0 % (250.0 against 250.0 ms), mean end-to-end 0.0 % (875.0 against 875.0 ms), balancedness "
      "0.900 against 0.750. KV pool of decode instances -20.0 % (1,600 against 2,000 tokens per rank): experts take "
      "1.000 GiB more per "
      "GPU. No request waited for KV blocks in either run, so the size of the pool made no difference at this "
      "load.");
}

TEST_CASE("the conclusion does not say that the size of the pool made no difference where prefixes were evicted") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  base.set("prefix_hit_share", 0.444);
  eplb.set("prefix_hit_share", 0.296);
  const std::string text = conclusion(one_seed(std::vector{base, eplb}), 1);
  CHECK(text.find("made no difference") == std::string::npos);
  CHECK(text.find("the pool also holds the prefix cache, whose hit rate is 29.6 % (against 44.4 %)") !=
        std::string::npos);
}

TEST_CASE("the conclusion tells of a full pool, of saved copies and of none") {
  RunSummary first = summarize(test::sample_run("eplb")), second = summarize(test::sample_run("base"));
  second.set("kv_copies_gib_per_gpu", 0.25);
  second.set("kv_full_time_share", 0.125);
  const std::string text = conclusion(one_seed(std::vector{first, second}), 1);
  CHECK(text.find("experts take 0.750 GiB less per GPU") != std::string::npos);
  CHECK(text.find("waited for KV blocks in 12.5 % of the busy time (against 0.0 %)") != std::string::npos);
  CHECK(conclusion(one_seed(std::vector{first, first}), 1).find("experts take the same GPU memory") !=
        std::string::npos);
}

TEST_CASE("the conclusion cautions where one policy is scored on expected counts and the other on whole ones") {
  RunResult planned = test::sample_run("eplb"), stepwise = test::sample_run("libra");
  stepwise.whole_counts = true;
  const auto text = [](const RunResult& first, const RunResult& second) {
    return conclusion(one_seed(std::vector{summarize(first), summarize(second)}), 1);
  };
  const std::string words = "Caution: libra is scored on whole assignments, eplb on expected counts";
  CHECK(text(planned, stepwise).find(words) != std::string::npos);
  CHECK(text(stepwise, planned).find(words) != std::string::npos);
  CHECK(text(stepwise, stepwise).find("Caution") == std::string::npos);
  CHECK(text(planned, planned).find("Caution") == std::string::npos);
}

TEST_CASE("the conclusion says where rows of the two policies are counted differently") {
  RunResult planned = test::sample_run("eplb"), stepwise = test::sample_run("libra");
  planned.row_sharing = "counted token by token, as loads have them";
  stepwise.row_sharing = kIndependentRows;
  const auto text = [](const RunResult& first, const RunResult& second) {
    return conclusion(one_seed(std::vector{summarize(first), summarize(second)}), 1);
  };
  const std::string words =
      "Rows that libra sends are counted as if experts were used independently, those of eplb as tokens use them";
  CHECK(text(planned, stepwise).find(words) != std::string::npos);
  CHECK(text(stepwise, planned).find(words) != std::string::npos);
  CHECK(text(stepwise, stepwise).find("independently") == std::string::npos);
  CHECK(text(planned, planned).find("independently") == std::string::npos);
}

TEST_CASE("in overload neither latencies nor percentages are compared") {
  RunSummary base = summarize(test::sample_run("base")), slow = base;
  slow.label = "slow";
  slow.set("overloaded", true);
  slow.set("requests_per_s", 0.25);
  const std::string text = conclusion(one_seed(std::vector{base, slow}), 1);
  CHECK(
      text.starts_with("slow against base: 0.2500 requests/s completed against 0.5000. slow is overloaded, so their "
                       "latencies cannot be compared. "
                       "KV pool"));
}

TEST_CASE("over seeds a difference whose interval contains zero is none") {
  RunSummary base = summarize(test::sample_run("base")), eplb = summarize(test::sample_run("eplb"));
  Comparison runs{{1, 2, 3}, {{base, base, base}, {eplb, eplb, eplb}}};
  const double served[2][3] = {{1, 2, 3}, {2, 3.5, 4}}, ttft[2][3] = {{100, 200, 300}, {90, 215, 300}};
  for (std::size_t p = 0; p < 2; ++p) {
    for (std::size_t s = 0; s < 3; ++s) {
      runs.by_policy[p][s].set("requests_per_s", served[p][s]);
      runs.by_policy[p][s].set("ttft_mean_ms", ttft[p][s]);
      runs.by_policy[p][s].texts[metric("fingerprint").index] = std::to_string(s);
    }
  }
  // Differences 1, 1.5, 1: mean 1.167, deviation 0.2887, so 4.303 x 0.2887 / sqrt(3) = 0.717 = 35.9 % of the mean 2.
  // Unpaired, the spread of 1 between seeds would hide it.
  // TTFT: -10, 15, 0: mean 1.667 (0.8 % of 200), deviation 12.58, 31.3 = 15.6 %.
  const std::string text = conclusion(runs, 1);
  CHECK(text.find("throughput +58.3 % +- 35.9 (3.167 against 2.000 requests/s)") != std::string::npos);
  CHECK(text.find("mean TTFT no difference (+0.8 % +- 15.6)") != std::string::npos);
  CHECK(conclusions(runs).back().starts_with("3 seeds, paired"));
  const auto same_runs_of = [&](std::size_t p) {
    for (RunSummary& run : runs.by_policy[p]) {
      run.texts[metric("fingerprint").index] = "same";
    }
  };
  same_runs_of(1);
  CHECK(conclusions(runs).back().ends_with(
      "are the same under all seeds: their intervals of 0 say nothing about chance."));
  same_runs_of(0);
  CHECK(conclusions(runs).back().find("every policy's runs are one and the same") != std::string::npos);
  CHECK(conclusions(one_seed(std::vector{base, eplb})).back().find("Run --seeds 5") != std::string::npos);
  CHECK(conclusions(one_seed(std::vector{base})).empty());
}

TEST_CASE("policies rank by their means over seeds") {
  const Comparison runs{{1, 2}, {{run_with(3.0, 10), run_with(1.0, 10)}, {run_with(2.5, 10), run_with(2.5, 10)}}};
  CHECK(rank_policies(runs) == Order{1, 0});
}

TEST_CASE("overload: what is offered, what is served, and a rate to try") {
  RunSummary base = run_with(1.9, 10), eplb = run_with(2.8, 10);
  base.label = "base";
  eplb.label = "eplb";
  base.set("offered_requests_per_s", 4);
  eplb.set("offered_requests_per_s", 4);
  CHECK(!overload(one_seed(std::vector{base, eplb})));
  base.set("overloaded", true);
  eplb.set("overloaded", true);
  Comparison runs = one_seed(std::vector{base, eplb});
  CHECK(overload(runs)->text.ends_with("A rate to try: 1.5 requests/s on average."));  // onoff, sessions
  runs.takes_rate = true;
  const Overload both = *overload(runs);
  CHECK(both.most_served_requests_per_s == 2.8);
  CHECK(both.rate_to_try_requests_per_s == doctest::Approx(1.5));  // 0.8 x 1.9 = 1.52, two digits
  CHECK(both.text.starts_with("4.000 requests/s are offered and at most 2.800 are served: this is overload."));
  CHECK(both.text.find("epsim goodput") != std::string::npos);
  CHECK(both.text.find("--set requests.rate=1.5/s") != std::string::npos);
  base.set("offered_requests_per_s", 1e12);
  CHECK(
      overload(one_seed(std::vector{base, eplb}))
          ->text.starts_with("All requests arrive at once and at most 2.800 requests/s are served: this is overload."));
  eplb.set("overloaded", false);
  CHECK(overload(one_seed(std::vector{base, eplb}))->policies == std::vector<std::string>{"base"});
}

}  // namespace epsim
