// What can be asked of every recorded trace: equal times, rates, clipping.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tests/support/paths.h"
#include "tests/traces/requests_support.h"
#include "tests/traces/support.h"
#include "traces/requests/request_collector.h"

namespace epsim {
namespace {

using std::chrono::milliseconds;
using test::contains;
using test::message;

// Requests at the given times (ms) with the row's number as both lengths.
RequestTable collect(const std::vector<int>& times_ms, const RequestOptions& options, int block_tokens = 0) {
  RequestCollector collector(options, block_tokens);
  for (std::size_t i = 0; i < times_ms.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i) + 1;
    collector.add(milliseconds(times_ms[i]), n, n, {"rows", static_cast<int>(i) + 1, ""});
  }
  return collector.finish("rows");
}

TEST_CASE("equal times can be spread over the gap that follows, the last ones over the gap ahead") {
  RequestOptions o;
  o.equal_times = EqualTimes::kSpread;
  const RequestTable t = collect({0, 0, 0, 3000, 3000, 4000, 4000}, o);
  // Three over [0, 3000), two over [3000, 4000), two over [4000, 5000): the gap ahead of the last group is 1000.
  const int expected_ms[] = {0, 1000, 2000, 3000, 3500, 4000, 4500};
  for (std::size_t i = 0; i < 7; ++i) {
    CHECK(t.trace.requests[i].arrival == milliseconds(expected_ms[i]));
  }
  CHECK(collect({5, 5}, o).trace.requests[1].arrival == milliseconds(5));  // no gap is known: all stay
}

TEST_CASE("resampling keeps the time axis and scales the number of requests") {
  std::vector<int> times;
  for (int i = 0; i < 4001; ++i) {
    times.push_back(10 * i);  // 100/s
  }
  RequestOptions o;
  o.rate_by = RateMethod::kResample;
  SUBCASE("an exact double: every request twice") {
    o.rate = RequestsPerSecond(200);
    const RequestTable t = collect(times, o);
    REQUIRE(t.trace.requests.size() == 8002);
    // The second one lies within a gap, and is a copy of the request 0.618 x a tenth of 4001, 247, further on.
    for (std::size_t i = 0; i < 4000; ++i) {
      CHECK(t.trace.requests[2 * i].arrival == milliseconds(times[i]));
      CHECK(t.trace.requests[2 * i + 1].arrival < milliseconds(times[i + 1]));
      CHECK(t.trace.requests[2 * i + 1].input_tokens == static_cast<int>((i + 247) % 4001) + 1);
    }
    CHECK(contains(t.trace.source, "resampled, 2 copies"));
  }
  SUBCASE("a quarter: binomial") {
    o.rate = RequestsPerSecond(25);
    const RequestTable t = collect(times, o);
    // Each of 4001 is kept with chance 1/4: mean 1000.25, deviation sqrt(4001 x 0.25 x 0.75) = 27.4; 5 of them.
    CHECK(std::abs(static_cast<double>(t.trace.requests.size()) - 1000.25) < 137);
    CHECK(t.trace.requests.back().arrival > std::chrono::seconds(39));
  }
}

TEST_CASE("copies of a request share blocks with copies of the same number alone") {
  RequestOptions o;
  o.rate = RequestsPerSecond(2);
  o.rate_by = RateMethod::kResample;
  RequestCollector collector(o, 10);
  const std::vector<std::int64_t> first = {900, 7}, second = {900, 8};
  collector.add(Ticks{0}, 20, 1, {}, first);
  collector.add(std::chrono::seconds(1), 20, 1, {}, second);  // 1/s as recorded: two copies of each
  const RequestTable t = collector.finish("blocks");
  REQUIRE(t.trace.requests.size() == 4);
  // Renumbered by appearance: 900 -> 0, 7 -> 1, 8 -> 2; the second copies are 3 higher.
  CHECK(test::blocks_of(t, 0) == std::vector<std::int64_t>{0, 1});
  CHECK(test::blocks_of(t, 1) == std::vector<std::int64_t>{3, 4});
  CHECK(test::blocks_of(t, 2) == std::vector<std::int64_t>{0, 2});
  CHECK(test::blocks_of(t, 3) == std::vector<std::int64_t>{3, 5});
}

// Of requests that come one a second.
RequestCollector half_of_one_a_second() {
  RequestOptions o;
  o.rate_by = RateMethod::kResample;
  o.rate = RequestsPerSecond(0.5);
  return RequestCollector(o, 10);
}

// 400 conversations of two turns behind a block that all share, each turn a second after the one before.
TEST_CASE("resampling keeps or drops conversations as a whole") {
  RequestCollector collector = half_of_one_a_second();
  for (std::int64_t turn = 0; turn < 800; ++turn) {
    std::vector<std::int64_t> blocks{0};
    const std::int64_t own = 10 * (turn / 2 + 1);
    for (std::int64_t b = 0; b < (turn % 2 == 0 ? 3 : 6); ++b) {
      blocks.push_back(own + b);
    }
    collector.add(std::chrono::seconds(turn), static_cast<std::int32_t>(10 * blocks.size()), 1, {}, blocks);
  }
  const RequestTable t = collector.finish("conversations");
  // Binomial over conversations: mean 400 requests, deviation 2 x sqrt(400 / 4) = 20; 5 of them.
  CHECK(std::abs(static_cast<double>(t.trace.requests.size()) - 400) < 100);
  REQUIRE(t.trace.requests.size() % 2 == 0);
  for (std::size_t i = 0; i < t.trace.requests.size(); i += 2) {
    CHECK(t.trace.requests[i].input_tokens == 40);
    CHECK(t.trace.requests[i + 1].input_tokens == 70);
    CHECK(test::blocks_of(t, i)[1] == test::blocks_of(t, i + 1)[1]);
  }
}

// 400 conversations of two turns, the first of which was sent twice.
TEST_CASE("resampling keeps a turn that was sent again with its conversation") {
  RequestCollector collector = half_of_one_a_second();
  for (std::int64_t i = 0; i < 1200; ++i) {
    const std::int64_t own = 10 * (i / 3 + 1);
    std::vector<std::int64_t> blocks{0, own, own + 1};
    if (i % 3 == 2) {
      blocks.push_back(own + 2);
    }
    collector.add(std::chrono::seconds(i), static_cast<std::int32_t>(10 * blocks.size()), 1, {}, blocks);
  }
  const RequestTable t = collector.finish("sent again");
  REQUIRE(t.trace.requests.size() % 3 == 0);
  for (std::size_t i = 0; i < t.trace.requests.size(); i += 3) {
    CHECK(test::blocks_of(t, i)[1] == test::blocks_of(t, i + 2)[1]);
  }
}

// What all have in common makes no conversation of them, though it is most of every prompt.
TEST_CASE("resampling draws prompts behind a long shared one each for itself") {
  RequestCollector collector = half_of_one_a_second();
  for (std::int64_t i = 0; i < 4000; ++i) {
    std::vector<std::int64_t> blocks{0, 1, 2, 3, 4, 5, 6, 7};
    for (std::int64_t own = 0; own <= i % 8; ++own) {
      blocks.push_back(10 * (i + 1) + own);
    }
    collector.add(std::chrono::seconds(i), static_cast<std::int32_t>(10 * blocks.size()), 1, {}, blocks);
  }
  // Binomial: mean 2000, deviation sqrt(4000 / 4) = 31.6; 5 of them.
  const RequestTable t = collector.finish("shared prompt");
  CHECK(std::abs(static_cast<double>(t.trace.requests.size()) - 2000) < 158);
}

TEST_CASE("clipped inputs keep the prefix blocks that they touch; too many blocks are refused") {
  RequestOptions o;
  o.max_input_tokens = 25;
  RequestCollector collector(o, 10);
  const std::vector<std::int64_t> blocks = {1, 2, 3, 4};
  collector.add(Ticks{0}, 40, 1, {}, blocks);
  CHECK(contains(message([&] {
                   collector.add(Ticks{1}, 30, 1, {"f", 2, "k"}, blocks);
                 }),
                 "4 prefix blocks; 30 input tokens fill at most 3 of 10 tokens"));
  const RequestTable t = collector.finish("f");
  CHECK(t.trace.requests[0].input_tokens == 25);
  CHECK(test::blocks_of(t, 0) == std::vector<std::int64_t>{1, 2, 3});  // 25 tokens touch 3 blocks of 10
}

TEST_CASE("blocks of answers are kept where the input is whole") {
  RequestOptions o;
  o.max_input_tokens = 25;
  o.max_output_tokens = 15;
  RequestCollector collector(o, 10, true);
  const std::vector<std::int64_t> blocks = {1, 2, 3, 4};
  collector.add(Ticks{0}, 20, 20, {}, blocks);
  collector.add(Ticks{1}, 30, 10, {}, blocks);
  CHECK(contains(message([&] {
                   collector.add(Ticks{2}, 20, 10, {"f", 3, "k"}, blocks);
                 }),
                 "4 prefix blocks; 30 input and output tokens fill at most 3 of 10 tokens"));
  const RequestTable t = collector.finish("f");
  CHECK(t.answers);
  CHECK(test::blocks_of(t, 0) == blocks);  // 20 + 15 of its tokens touch 4 blocks
  // The 5 tokens that are cut away stood ahead of the answer: the third block would be another one.
  CHECK(test::blocks_of(t, 1) == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("a section's own seed replaces the scenario's") {
  const std::string head = "{kind: poisson, rate: 1/s, count: 3, input_tokens: 1, output_tokens: 1";
  const RequestTable own = test::table_of(head + ", seed: 7}", "", Seed{1});
  CHECK(own.trace.requests[2].arrival == test::table_of(head + "}", "", Seed{7}).trace.requests[2].arrival);
  CHECK(own.trace.requests[2].arrival != test::table_of(head + "}", "", Seed{1}).trace.requests[2].arrival);
}

TEST_CASE("without a header, columns are numbers, whatever the first row holds") {
  const test::TempDir folder;
  const std::string file = (folder / "t.csv").string();
  test::write_text(file, "1,100,2\n2,200,6\n3,300,7\n");
  const RequestTable read =
      test::table_of("{kind: csv, header: false, arrival_column: 0, input_column: 1, output_column: 2}", file);
  REQUIRE(read.trace.requests.size() == 3);
  CHECK(read.trace.requests[0].input_tokens == 100);
  CHECK(read.trace.requests[0].output_tokens == 2);
  CHECK(read.trace.requests[2].input_tokens == 300);
}

TEST_CASE("options that cannot be") {
  const test::TempDir folder;
  const std::string file = (folder / "t.csv").string();
  test::write_text(file, "t,i,o\n0,1,1\n1,1,1\n");
  const auto read = [&](const std::string& keys) {
    return message([&] {
      test::table_of("{kind: csv, arrival_column: t, input_column: i, output_column: o, " + keys + "}", file);
    });
  };
  CHECK(contains(read("slice_start: 1e9s"), "longer than a run can be"));
  CHECK(contains(read("slice_length: 1e300s"), "longer than a run can be"));
  CHECK(contains(read("rate: 1e9/s, rate_by: resample"), "at most 1e+08"));
  CHECK(contains(read("rate: 1e-9/s, rate_by: resample"), "no request is left"));
  CHECK(contains(read("rate: 1/s, rate_by: magic"), "stretch"));
  CHECK(contains(read("rate_by: resample"), "no rate is stated"));
  CHECK(contains(read("equal_timestamps: maybe"), "spread"));
}

}  // namespace
}  // namespace epsim
