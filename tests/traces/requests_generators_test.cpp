// Generated arrivals and lengths, against figures derived from their definitions. Bounds are five standard deviations
// of the estimate unless a comment says otherwise.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "sim/core/statistics.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"
#include "tests/traces/requests_support.h"
#include "tests/traces/support.h"
#include "traces/requests/arrivals.h"
#include "traces/requests/lengths.h"
#include "traces/requests/prefix_blocks.h"

namespace epsim {
namespace {

using test::contains;
using test::message;
using test::seconds_of;
using test::table_of;

const std::string kOne = ", input_tokens: 1, output_tokens: 1}";

RunningStats gaps_of(const RequestTrace& t) {
  RunningStats gaps;
  for (std::size_t i = 1; i < t.requests.size(); ++i) {
    gaps.add(seconds_of(t.requests[i].arrival - t.requests[i - 1].arrival));
  }
  return gaps;
}

TEST_CASE("gamma: gaps of the stated mean, coefficient of variation 1/sqrt(burstiness)") {
  for (const double b : {0.25, 1.0, 4.0}) {
    CAPTURE(b);
    const double n = 40000;
    const RunningStats gaps =
        gaps_of(table_of("{kind: gamma, rate: 4/s, count: 40001, burstiness: " + std::to_string(b) + kOne).trace);
    CHECK(std::abs(gaps.mean() - 0.25) < 5 * 0.25 / std::sqrt(b * n));
    // The variance of a sample variance is sigma^4 (2 + excess kurtosis) / n; a gamma's excess is 6 / shape.
    const double variance = 0.25 * 0.25 / b;
    CHECK(std::abs(gaps.variance() - variance) < 5 * variance * std::sqrt((2 + 6 / b) / n));
  }
}

TEST_CASE("the first gap of a stationary process has the mean E[X^2] / 2 E[X]") {
  struct Row {
    GapRule rule;
    double second, fourth;  // E[X^2] and E[X^3] / 3 = E[first^2] at E[X] = 1
  };
  // Gamma of shape k, mean 1: E[X^2] = (k+1)/k, E[X^3] = (k+1)(k+2)/k^2.
  // Weibull of shape 1/2, mean 1: scale 1/2, E[X^m] = Gamma(1+2m) / 2^m: 24/4 = 6 and 720/8 = 90.
  for (const Row& r : {Row{{GapRule::Family::kPoisson, 1.0}, 2.0, 2.0},
                       Row{{GapRule::Family::kGamma, 0.25}, 5.0, 1.25 * 2.25 / 0.0625 / 3},
                       Row{{GapRule::Family::kWeibull, 0.5}, 6.0, 30.0}}) {
    CAPTURE(static_cast<int>(r.rule.family));
    RandomStream random(Seed{3}, "test");
    RunningStats first, gaps;
    const double n = 100000;
    for (int i = 0; i < 100000; ++i) {
      first.add(r.rule.first(random));
      gaps.add(r.rule.draw(random));
    }
    CHECK(std::abs(gaps.mean() - 1.0) < 5 * std::sqrt((r.second - 1) / n));
    CHECK(std::abs(first.mean() - r.second / 2) < 5 * std::sqrt((r.fourth - r.second * r.second / 4) / n));
  }
}

TEST_CASE("fixed turns: arrivals in the on times alone, at the on rate") {
  const RequestTrace t = table_of(
                             "{kind: onoff, on_rate: 100/s, on_time: 1s, off_time: 9s, turns: fixed, "
                             "duration: 1000s" +
                             kOne)
                             .trace;
  for (const Request& r : t.requests) {
    CHECK_FALSE(std::fmod(seconds_of(r.arrival), 10.0) >= 1.0);
  }
  CHECK(std::abs(static_cast<double>(t.requests.size()) - 10000) < 5 * std::sqrt(10000.0));  // 100 turns of 1 s
}

TEST_CASE("fixed turns with a quiet rate") {
  const RequestTrace t = table_of(
                             "{kind: onoff, on_rate: 30/s, off_rate: 10/s, on_time: 5s, off_time: 5s, "
                             "turns: fixed, duration: 1000s" +
                             kOne)
                             .trace;
  const auto on = static_cast<double>(std::count_if(t.requests.begin(), t.requests.end(), [](const Request& r) {
    return std::fmod(seconds_of(r.arrival), 10.0) < 5.0;
  }));
  CHECK(std::abs(on - 15000) < 5 * std::sqrt(15000.0));
  CHECK(std::abs(static_cast<double>(t.requests.size()) - on - 5000) < 5 * std::sqrt(5000.0));
}

TEST_CASE("exponential turns: the mean rate, within the spread of such a process") {
  const RequestTrace t =
      table_of("{kind: onoff, on_rate: 100/s, on_time: 1s, off_time: 9s, duration: 10000s" + kOne).trace;
  // Mean 0.1 x 100/s x 10000 s. Long counts of a two-state process with rates (l, 0) and exit rates (a, b) have the
  // variance-to-mean ratio 1 + 2 l a / (a + b)^2 (Fischer and Meier-Hellstern 1993): l = 100, a = 1, b = 1/9 give 163.
  CHECK(std::abs(static_cast<double>(t.requests.size()) - 1e5) < 5 * std::sqrt(163 * 1e5));
  // And they are bursts: the gaps' deviation is far above their mean.
  const RunningStats gaps = gaps_of(t);
  CHECK(std::sqrt(gaps.variance()) > 3 * gaps.mean());
}

TEST_CASE("hourly rates hold in their hours") {
  std::string rates = "[1, 3";
  for (int h = 2; h < 24; ++h) {
    rates += ", 0";
  }
  const std::string head = "{kind: diurnal, hourly_rates: " + rates + "], ";
  const auto by_hour = [&](const std::string& keys) {
    std::map<int, double> count;
    for (const Request& r : table_of(head + keys + kOne).trace.requests) {
      ++count[static_cast<int>(seconds_of(r.arrival) / 3600)];
    }
    return count;
  };
  const std::map<int, double> two_days = by_hour("duration: 48h");
  REQUIRE(two_days.size() == 4);  // hours 0, 1, 24, 25
  for (const auto& [hour, expected] : {std::pair{0, 3600.0}, {1, 10800.0}, {24, 3600.0}, {25, 10800.0}}) {
    CHECK(std::abs(two_days.at(hour) - expected) < 5 * std::sqrt(expected));
  }
  const std::map<int, double> from_one = by_hour("start_at: 1h, duration: 2h");
  REQUIRE(from_one.size() == 1);
  CHECK(std::abs(from_one.at(0) - 10800) < 5 * std::sqrt(10800.0));
}

TEST_CASE("a daily sinusoid: the mean rate, and its share about the peak") {
  const RequestTrace t = table_of(
                             "{kind: diurnal, rate: 10/s, amplitude: 0.9, period: 100s, peak_at: 25s, "
                             "duration: 10000s" +
                             kOne)
                             .trace;
  const auto n = static_cast<double>(t.requests.size());
  CHECK(std::abs(n - 1e5) < 5 * std::sqrt(1e5));
  const auto high = static_cast<double>(std::count_if(t.requests.begin(), t.requests.end(), [](const Request& r) {
    return std::fmod(seconds_of(r.arrival), 100.0) < 50.0;
  }));
  // The half period about the peak holds 1/2 + amplitude / pi of all.
  const double share = 0.5 + 0.9 / 3.14159265358979;
  CHECK(std::abs(high / n - share) < 5 * std::sqrt(share * (1 - share) / n));
}

const std::string kSessions =
    "{kind: sessions, session_rate: 1/s, think_time: 10s, input_tokens: 100, output_tokens: 50, block_tokens: 64, ";

TEST_CASE("sessions: the number of turns, and inputs that grow by input and answer") {
  const RequestTable t = table_of(kSessions + "turns: 4, max_context: 100000, duration: 20000s}");
  std::map<std::int32_t, double> by_input;
  for (const Request& r : t.trace.requests) {
    ++by_input[r.input_tokens];
    CHECK_FALSE((r.input_tokens - 100) % 150 != 0);  // turn k (from 0) has 150 k tokens ahead of its 100
  }
  CHECK(std::abs(by_input[100] - 20000) < 5 * std::sqrt(20000.0));
  // A geometric number of turns of mean 4 goes on with chance 3/4; a session that begins within the last minutes is cut
  // off, which takes at most 10 s x 3 turns x 1/s = 30 from each count.
  CHECK(std::abs(by_input[250] - 0.75 * by_input[100]) < 30 + 5 * std::sqrt(20000 * 0.75 * 0.25));
  // Compound Poisson: variance = sessions x E[turns^2] = 20000 x (12 + 16); cut off: 1/s x 3 turns x 40 s = 120.
  CHECK(std::abs(static_cast<double>(t.trace.requests.size()) - 80000) < 120 + 5 * std::sqrt(20000 * 28.0));
}

TEST_CASE(
    "sessions: the blocks of a turn and its answer stand ahead of the next turn's; other sessions share none of them") {
  const RequestTable t = table_of(kSessions + "turns: 3, max_context: 10000, system_tokens: 130, count: 400}");
  REQUIRE(t.trace.requests.size() == 400);
  std::map<std::int64_t, std::size_t> last_of_session;  // by the first block of its own: the request seen last
  for (std::size_t i = 0; i < 400; ++i) {
    const int input = t.trace.requests[i].input_tokens;
    const std::vector<std::int64_t> blocks = test::blocks_of(t, i);
    REQUIRE(blocks.size() == static_cast<std::size_t>((input + 50) / 64));  // with an answer of 50 tokens
    CHECK(blocks[0] == 0);  // 130 system tokens fill two blocks of 64, shared by all
    CHECK(blocks[1] == 1);
    const auto before = last_of_session.find(blocks[2]);
    const int turn = (input - 230) / 150;
    CHECK((before == last_of_session.end()) == (turn == 0));
    if (before != last_of_session.end()) {
      const std::vector<std::int64_t> earlier = test::blocks_of(t, before->second);
      CHECK(std::equal(earlier.begin(), earlier.end(), blocks.begin()));
    }
    last_of_session[blocks[2]] = i;
  }
}

TEST_CASE("sessions end where their context is full") {
  // Turns take 150, 300, 450 tokens: the third exceeds 400.
  const RequestTable t = table_of(kSessions + "turns: 50, max_context: 400, count: 100}");
  std::set<std::int32_t> inputs;
  for (const Request& r : t.trace.requests) {
    inputs.insert(r.input_tokens);
  }
  CHECK(inputs == std::set<std::int32_t>{100, 250});
}

TEST_CASE("sessions: the ramp is four mean lifetimes, after which arrivals come at their lasting rate") {
  // 4 x 4 turns x 10 s = 160 s of 1600 s. Turns a second at time t: 1/s x 4 (1 - exp(-t / 40 s)), where a turn goes on
  // with chance 3/4 after 10 s, so that they die at 1/40 s. 640 of them would come in 160 s in the steady state; missing
  // are 4/s x 40 s x (1 - exp(-4)) = 157. Deviation: conversations x E[turns^2] = 160 x 28.
  const std::string tail = "turns: 4, max_context: 100000, duration: ";
  const RequestTrace t = table_of(kSessions + tail + "1600s}").trace;
  CHECK(std::abs(static_cast<double>(t.ramp) - 483) < 4 * std::sqrt(160 * 28.0));
  CHECK(std::abs(static_cast<double>(t.steady()) - 4 * 1440) < 4 * std::sqrt(1440 * 28.0));
  CHECK(t.requests[t.ramp - 1].arrival < to_ticks(Seconds{160}));
  CHECK(t.requests[t.ramp].arrival >= to_ticks(Seconds{160}));
  const RequestTrace all_ramp = table_of(kSessions + tail + "100s}").trace;
  CHECK(all_ramp.steady() == 0);
}

TEST_CASE("sessions of which no turn fits are refused, and those that never come") {
  const InputError full =
      test::error_of<InputError>([] { table_of(kSessions + "turns: 5, max_context: 149, count: 10}"); });
  test::check_contains(full.what(), {"max_context", "no first turn of 1000 conversations fits in 149 tokens"});
  CHECK_NOTHROW(table_of(kSessions + "turns: 5, max_context: 150, count: 10}"));
  const InputError rare = test::error_of<InputError>([] {
    table_of(  // one in ten fits: 50,000 conversations take 5e7 s
        "{kind: sessions, session_rate: 0.001/s, think_time: 1s, turns: 1, max_context: 101, count: 5000, "
        "lengths: {input: {kind: uniform, min: 1, max: 1000}, output: {kind: fixed, tokens: 1}}}");
  });
  test::check_contains(rare.what(), {"count", "in the 106 days that a run can be long"});
}

// The lengths of n requests.
RequestTrace lengths(const std::string& section, int n = 40000) {
  return table_of("{kind: constant, rate: 1000/s, count: " + std::to_string(n) + ", lengths: " + section + "}").trace;
}

TEST_CASE("lognormal lengths have the stated mean; the clip is a bound") {
  RunningStats in, out;
  for (const Request& r : lengths("{input: {kind: lognormal, mean: 1000, sigma: 1, max: 1000000}, "
                                  "output: {kind: lognormal, mean: 100, sigma: 2, min: 50, max: 200}}")
                              .requests) {
    in.add(r.input_tokens);
    out.add(r.output_tokens);
  }
  // Deviation of a lognormal: mean x sqrt(exp(sigma^2) - 1). The clip at 10^6 lies 7.4 deviations out.
  CHECK(std::abs(in.mean() - 1000) < 5 * 1000 * std::sqrt(std::exp(1.0) - 1) / 200);
  CHECK(out.min() == 50);
  CHECK(out.max() == 200);
}

// E[min(X, c)] = mean x Phi(z - sigma) + c x Phi(-z) with z = (ln c - mu) / sigma. Documents of 5000 tokens on average,
// sigma 1.2, cut at c = 4096: mu = ln 5000 - 0.72 = 7.797, z = 0.434, Phi(-z) = 0.332, Phi(z - sigma) = 0.222, so 2469.
TEST_CASE("a lognormal's mean may lie beyond the clip") {
  double sum = 0, cut = 0;
  for (const Request& r : lengths("{input: {kind: lognormal, mean: 5000, sigma: 1.2, max: 4096}, "
                                  "output: {kind: fixed, tokens: 1}}")
                              .requests) {
    sum += r.input_tokens / 40000.0;
    cut += r.input_tokens == 4096 ? 1 / 40000.0 : 0;
  }
  CHECK(std::abs(cut - 0.332) < 5 * std::sqrt(0.332 * 0.668) / 200);
  CHECK(sum == doctest::Approx(2469).epsilon(0.015));  // deviation of a length below 1500: 0.3 % of the mean
}

TEST_CASE("uniform and fixed lengths") {
  std::map<std::int32_t, int> count;
  for (const Request& r :
       lengths("{input: {kind: uniform, min: 3, max: 5}, output: {kind: fixed, tokens: 9}}").requests) {
    ++count[r.input_tokens];
    CHECK_FALSE(r.output_tokens != 9);
  }
  REQUIRE(count.size() == 3);
  for (const auto& [tokens, n] : count) {
    CHECK(std::abs(n - 40000 / 3.0) < 5 * std::sqrt(40000 * 2 / 9.0));  // binomial, p = 1/3
  }
}

TEST_CASE("empirical lengths come in the pairs of the trace") {
  const test::TempDir folder;
  test::write_text(folder / "t.csv", "t,i,o\n0,10,1\n1,20,2\n2,20,2\n3,30,3\n");
  Config config = Config::from_text(
      "{kind: poisson, rate: 1/s, count: 8000, lengths: {empirical: {kind: csv, arrival_column: t, input_column: i, "
      "output_column: o}}}",
      "requests.yaml");
  config.set("lengths.empirical.path=" + (folder / "t.csv").string());
  ConfigReader in = config.root();
  const RequestTrace t = read_requests(in, Seed{1});
  in.finish();
  std::map<std::int32_t, int> count;
  for (const Request& r : t.requests) {
    CHECK_FALSE(r.input_tokens != 10 * r.output_tokens);
    ++count[r.input_tokens];
  }
  CHECK(std::abs(count[20] - 4000) < 5 * std::sqrt(2000.0));  // two rows of four
  CHECK(std::abs(count[10] - 2000) < 5 * std::sqrt(1500.0));
  CHECK(contains(t.source, "lengths of"));
}

TEST_CASE("a longer trace begins with the shorter one, for every generator") {
  const std::map<std::string, std::string> keys = {
      {"poisson", "rate: 3/s"},
      {"constant", "rate: 3/s"},
      {"gamma", "rate: 3/s, burstiness: 0.5"},
      {"onoff", "on_rate: 9/s, off_rate: 1/s, on_time: 2s, off_time: 5s"},
      {"diurnal", "rate: 3/s, amplitude: 0.8, period: 60s"},
      {"sessions", "session_rate: 1/s, turns: 4, think_time: 3s, max_context: 4000, block_tokens: 64"}};
  for (const RequestSource& source : request_sources()) {
    CHECK(source.generated == keys.contains(std::string(source.name)));
  }
  for (const auto& key : keys) {
    const auto& kind = key.first;
    const auto& own = key.second;
    CAPTURE(kind);
    const auto trace_of = [&](int count) {
      Config config = Config::from_text("{kind: " + kind + ", " + own + ", count: " + std::to_string(count) +
                                            ", lengths: {input: {kind: lognormal, mean: 300, sigma: 0.7, max: 4000}, "
                                            "output: {kind: uniform, min: 5, max: 50}}}",
                                        "requests.yaml");
      ConfigReader in = config.root();
      return read_requests(in, Seed{4});
    };
    const RequestTrace shorter = trace_of(700), longer = trace_of(1500);
    REQUIRE(shorter.requests.size() == 700);
    REQUIRE(longer.requests.size() == 1500);
    CHECK(std::equal(shorter.requests.begin(), shorter.requests.end(), longer.requests.begin(),
                     [](const Request& a, const Request& b) {
                       return a.arrival == b.arrival && a.input_tokens == b.input_tokens &&
                              a.output_tokens == b.output_tokens;
                     }));
    CHECK(std::equal(shorter.prefixes.ids.begin(), shorter.prefixes.ids.end(), longer.prefixes.ids.begin()));
    CHECK(std::equal(shorter.prefixes.start.begin(), shorter.prefixes.start.end(), longer.prefixes.start.begin()));
  }
}

TEST_CASE("arrivals stay as they are when the lengths change") {
  const std::string head = "{kind: poisson, rate: 4/s, count: 100, ";
  const RequestTrace fixed = table_of(head + "input_tokens: 1, output_tokens: 1}").trace;
  const RequestTrace drawn =
      table_of(head + "lengths: {input: {kind: uniform, max: 9}, output: {kind: uniform, max: 9}}}").trace;
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(fixed.requests[i].arrival == drawn.requests[i].arrival);
  }
}

TEST_CASE("generators refuse what cannot be") {
  struct Row {
    std::string yaml, part;
  };
  const std::string lengths_of = "{kind: poisson, rate: 1/s, count: 1, lengths: ";
  for (const Row& r : {
           Row{"{kind: gamma, rate: 4/s, count: 5, burstiness: 0" + kOne, "at least 0.001"},
           Row{"{kind: gamma, rate: 4/s, count: 5, burstiness: 1e-9" + kOne, "at least 0.001"},
           Row{"{kind: onoff, on_rate: 4/s, on_time: 1us, off_time: 1us, count: 5" + kOne, "1 ms at least"},
           Row{"{kind: onoff, on_rate: 1e-9/s, on_time: 1s, off_time: 1s, duration: 10s" + kOne, "no request arrives"},
           Row{"{kind: diurnal, rate: 1/s, amplitude: 1.5, count: 5" + kOne, "at most 1"},
           Row{"{kind: diurnal, hourly_rates: [1, 2], count: 5" + kOne, "24 rates"},
           Row{"{kind: diurnal, hourly_rates: [1, -2], count: 5" + kOne, "must not be negative"},
           Row{kSessions + "turns: 0.5, max_context: 100, count: 1}", "at least 1"},
           Row{kSessions + "turns: 2, max_context: 100, duration: 100s}", "max_context larger"},
           Row{kSessions + "turns: 2, max_context: 100, system_tokens: 100, count: 1}", "below max_context"},
           Row{lengths_of + "{input: {kind: fixed, tokens: 1}}}", "lengths.output"},
           Row{lengths_of + "{input: {kind: uniform, min: 5, max: 4}}}", "not be above max"},
           Row{lengths_of + "{input: {kind: lognormal, mean: 2e9, sigma: 1, max: 4}}}", "at most 1000000000"},
           Row{lengths_of + "{input: {kind: lognormal, mean: 9, sigma: 11, max: 40}}}", "at most 10"},
           Row{lengths_of + "{input: {kind: zipf}}}", "lognormal"},
           Row{lengths_of + "{}, input_tokens: 4}", "short form"},
       }) {
    CAPTURE(r.yaml);
    CHECK(contains(message([&] { table_of(r.yaml); }), r.part));
  }
}

}  // namespace
TEST_CASE("closed loop: all prompts at the start, the warm-up as long as the first") {
  const RequestTrace trace = table_of(
                                 "{kind: closed_loop, concurrency: 8, count: 50, warmup: 16, ramp: 2s, lengths: "
                                 "{input: {kind: uniform, min: 10, max: 20}, output: {kind: fixed, tokens: 5}}}")
                                 .trace;
  CHECK(trace.closed_loop.concurrency == 8);
  CHECK(trace.closed_loop.warmup == 16);
  CHECK(seconds_of(trace.closed_loop.ramp) == 2);
  REQUIRE(trace.requests.size() == 66);
  for (std::size_t i = 0; i < 66; ++i) {
    CHECK(trace.requests[i].arrival == Ticks{});
    CHECK((i > 16 || trace.requests[i].input_tokens == trace.requests[0].input_tokens));
  }
  // The warm-up does not move what is measured.
  const RequestTrace without = table_of(
                                   "{kind: closed_loop, concurrency: 8, count: 50, lengths: {input: {kind: uniform, "
                                   "min: 10, max: 20}, output: {kind: fixed, tokens: 5}}}")
                                   .trace;
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(trace.requests[16 + i].input_tokens == without.requests[i].input_tokens);
  }
}

TEST_CASE("closed loop: it has no rate, and needs a count") {
  const std::string lengths = ", input_tokens: 1, output_tokens: 1}";
  CHECK(contains(message([&] { table_of("{kind: closed_loop, concurrency: 8, count: 5, rate: 3/s" + lengths); }),
                 "at which they are answered"));
  CHECK(contains(message([&] { table_of("{kind: closed_loop, concurrency: 8" + lengths); }), "count"));
  CHECK(contains(message([&] { table_of("{kind: closed_loop, count: 8" + lengths); }), "concurrency"));
}

TEST_CASE("random lengths are whole numbers from the ratio's share, rounded down, to all of the tokens") {
  const auto lengths = [](const std::string& rule) {
    std::set<std::int32_t> out;
    for (const Request& r : table_of("{kind: constant, rate: 1/s, count: 3000, lengths: {input: " + rule +
                                     ", output: {kind: fixed, tokens: 1}}}")
                                .trace.requests) {
      out.insert(r.input_tokens);
    }
    return out;
  };
  // int(13 x 0.8) = 10; each of four lengths is missed by 3000 draws with chance 0.75^3000.
  CHECK(lengths("{kind: random, tokens: 13, range_ratio: 0.8}") == std::set<std::int32_t>{10, 11, 12, 13});
  CHECK(lengths("{kind: random, tokens: 4}") == std::set<std::int32_t>{1, 2, 3, 4});  // at least 1
  CHECK(lengths("{kind: random, tokens: 9, range_ratio: 1}") == std::set<std::int32_t>{9});
  CHECK(contains(message([&] { lengths("{kind: random, tokens: 9, range_ratio: 1.5}"); }), "range_ratio"));
}

// Three prompts of 64-token blocks: request i has prompt i mod 3, as long as when it was first sent.
TEST_CASE("distinct_prompts: prompts are sent in turn, and a cache finds them") {
  const std::string three =
      ", count: 8, distinct_prompts: 3, lengths: {input: {kind: uniform, min: 100, max: 400}, "
      "output: {kind: fixed, tokens: 5}}}";
  for (const std::string kind : {"{kind: constant, rate: 4/s", "{kind: poisson, rate: 4/s"}) {
    const RequestTable table = table_of(kind + three);
    const PrefixBlocks blocks = chain_prefix_blocks(table);
    CHECK(table.block_tokens == 64);
    std::int32_t distinct = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      CHECK(table.trace.requests[i].input_tokens == table.trace.requests[i % 3].input_tokens);
      CHECK(std::ranges::equal(blocks.of(i), blocks.of(i % 3)));
      CHECK(std::ssize(blocks.of(i)) == table.trace.requests[i].input_tokens / 64);
      distinct += i < 3 ? table.trace.requests[i].input_tokens / 64 : 0;
    }
    CHECK(blocks.distinct == distinct);
  }
  // Warm-up sends the first prompt; then the turn begins.
  const RequestTable loop = table_of("{kind: closed_loop, concurrency: 2, warmup: 2" + three);
  REQUIRE(loop.trace.requests.size() == 10);
  const PrefixBlocks blocks = chain_prefix_blocks(loop);
  for (const std::size_t same : {1, 2, 5, 8}) {
    CHECK(std::ranges::equal(blocks.of(0), blocks.of(same)));
  }
  CHECK_FALSE(std::ranges::equal(blocks.of(2), blocks.of(3)));
  CHECK(table_of("{kind: constant, rate: 4/s, count: 8, input_tokens: 100, output_tokens: 1}").block_tokens == 0);
  const std::string small =
      "{kind: constant, rate: 4/s, count: 8, input_tokens: 100, output_tokens: 1, block_tokens: 16";
  CHECK(chain_prefix_blocks(table_of(small + ", distinct_prompts: 3}")).of(7).size() == 6);
  CHECK(contains(message([&] { table_of(small + "}"); }), "distinct_prompts"));
}

}  // namespace epsim
