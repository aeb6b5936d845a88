// Results of the engines' load generators.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/traces/support.h"
#include "traces/requests/sources.h"

namespace epsim {
namespace {

using std::chrono::milliseconds;
using test::contains;
using test::message;

RequestTrace read(const std::string& text, const BenchmarkOptions& wanted = {}) {
  RequestOptions o;
  o.equal_times = EqualTimes::kKeep;
  ByteInput input = ByteInput::from_memory("bench.json", text);
  return read_benchmark_jsonl(input, wanted, o).trace;
}

const std::string kLists = "\"input_lens\": [10, 20, 30], \"output_lens\": [1, 2, 3]";

TEST_CASE("a run with start times: sorted, from the first one") {
  const RequestTrace t = read(
      "{\"date\": \"20250101\", \"request_rate\": Infinity, \"ttfts\": [NaN, 0.1, 0.2],\n"
      " \"generated_texts\": [\"a NaN, {\\\"b\\\": [\", \"Infinity\", \"\"], " +
      kLists + ", \"start_times\": [100.5, 100.25, 101.0]}");
  REQUIRE(t.requests.size() == 3);
  CHECK(t.source == "bench.json");
  CHECK(t.requests[0].input_tokens == 20);  // 100.25 comes first
  CHECK(t.requests[0].arrival == Ticks{0});
  CHECK(t.requests[1].input_tokens == 10);
  CHECK(t.requests[1].arrival == milliseconds(250));
  CHECK(t.requests[2].arrival == milliseconds(750));
  CHECK(t.requests[2].output_tokens == 3);
}

TEST_CASE("a run without start times: arrivals are drawn at the stated rate and burstiness") {
  std::string lens = "[1";
  for (int i = 1; i < 5000; ++i) {
    lens += ",1";
  }
  const RequestTrace t = read("{\"request_rate\": 8.0, \"burstiness\": 0.25, \"input_lens\": " + lens +
                              "], \"output_lens\": " + lens + "]}");
  CHECK(contains(t.source, "(arrivals drawn: 8/s, burstiness 0.25)"));
  // 4999 gaps of mean 1/8 s and deviation (1/8) / sqrt(0.25) = 1/4 s: the sum's deviation is sqrt(4999) / 4 = 17.7 s.
  CHECK(std::abs(to_seconds(t.requests.back().arrival).count() - 4999 / 8.0) < 5 * 17.7);
  BenchmarkOptions faster;
  faster.assumed_rate = RequestsPerSecond(80);
  const RequestTrace ten = read("{\"request_rate\": 8.0, " + kLists + "}", faster);
  CHECK(contains(ten.source, "80/s, burstiness 1"));
  CHECK(ten.requests[0].arrival == Ticks{0});
  CHECK(ten.requests[1].arrival > Ticks{0});
}

TEST_CASE("an infinite rate is a burst; no rate at all is an error") {
  for (const char* rate : {"\"inf\"", "Infinity"}) {
    const RequestTrace t = read(std::string("{\"request_rate\": ") + rate + ", " + kLists + "}");
    CHECK(t.requests[2].arrival == Ticks{0});
    CHECK(contains(t.source, "all at once"));
  }
  CHECK(contains(message([] { read("{" + kLists + "}"); }), "state the rate to assume with assumed_rate"));
  CHECK(contains(message([] { read("{\"request_rate\": \"trace\", " + kLists + "}"); }), "assumed_rate"));
}

TEST_CASE("several runs in one file: one must be named") {
  const std::string two =
      "{\"request_rate\": 1, " + kLists + "}\n{\"request_rate\": 1, \"input_lens\": [7], \"output_lens\": [8]}\n";
  CHECK(contains(message([&] { read(two); }), "several runs"));
  BenchmarkOptions second;
  second.run = 2;
  const RequestTrace t = read(two, second);
  REQUIRE(t.requests.size() == 1);
  CHECK(t.requests[0].input_tokens == 7);
  second.run = 3;
  CHECK(contains(message([&] { read(two, second); }), "run 3 is wanted; the file holds 2"));
  // Runs written without their lists count too.
  CHECK(read("{\"request_rate\": 1, \"completed\": 9}\n" + two, second).requests.size() == 1);
  second.run = 1;
  CHECK(contains(message([&] { read("{\"completed\": 9}\n" + two, second); }), "run 1 has no list input_lens"));
}

TEST_CASE("one object per request, under any of the usual names") {
  const RequestTrace t = read(
      "{\"prompt_len\": 5, \"output_len\": 6, \"start_time\": 3.0}\n"
      "{\"input_tokens\": 7, \"completion_tokens\": 8, \"timestamp\": 1.0}\n");
  REQUIRE(t.requests.size() == 2);
  CHECK(t.requests[0].input_tokens == 7);
  CHECK(t.requests[1].arrival == std::chrono::seconds(2));
}

TEST_CASE("results that cannot be used") {
  struct Row {
    std::string text, part;
  };
  for (const Row& r : {
           Row{"", "holds no request"},
           Row{"{}", "neither a run"},
           Row{"{\"input_lens\": [], \"output_lens\": []}", "holds no request"},
           Row{"{\"input_lens\": [1, 2], \"output_lens\": [1]}", "equally long"},
           Row{"{\"input_lens\": [1]}", "equally long"},
           Row{"{\"input_lens\": 3, \"output_lens\": 4}", "list of whole numbers"},
           Row{"{" + kLists + ", \"start_times\": [1, NaN, 2]}", "finite number of seconds"},
           Row{"{" + kLists + ", \"start_times\": [1, 1e300, 2]}", "more than 100 days"},
           Row{"{" + kLists + ", \"start_times\": [1, -1e308, 1e308]}", "more than 100 days"},
           Row{"{" + kLists + ", \"start_times\": [1]}", "equally long"},
           Row{"{" + kLists + ", \"request_rate\": 4, \"burstiness\": 0}", "burstiness or rate"},
           Row{"{" + kLists + ", \"request_rate\": 1e-300}", "burstiness or rate"},
           Row{"{\"request_rate\": 4, \"input_lens\": [1], \"output_lens\": [0]}", "input_lens[0]"},
           Row{"{\"request_rate\": 4, \"input_lens\": [9223372036854775808], \"output_lens\": [1]}", "64 bits"},
           Row{"{\"request_rate\": 4, \"input_lens\": [null], \"output_lens\": [1]}", "64 bits"},
           Row{"{\"prompt_len\": 5, \"output_len\": 6}\n{\"prompt_len\": 5, \"output_len\": 6, \"start_time\": 1}",
               "either all"},
           Row{"{\"prompt_len\": 5, \"output_len\": 6}\n{" + kLists + "}", "mixes"},
           Row{"{\"prompt_len\": 5, \"output_len\": 6},{\"prompt_len\": 5}", "must be a JSON object"},
           Row{"}", "must be a JSON object"},
           Row{"{\"a\": Nope}", "not a JSON value"},
           Row{"{\"a\": -Infinity}", "not valid JSON"},
           Row{"{\"a\": " + std::string(200, '[') + "}", "101 levels of nesting"},
           Row{"{\"a\": \"" + std::string(5 << 20, 'x') + "\"}", "more than 4 MiB"},
       }) {
    CAPTURE(r.text.substr(0, 200));
    CHECK(contains(message([&] { read(r.text); }), r.part));
  }
}

}  // namespace
}  // namespace epsim
