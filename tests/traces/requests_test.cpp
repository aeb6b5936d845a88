#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/core/statistics.h"
#include "tests/traces/support.h"
#include "traces/requests/read_requests.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

RequestTrace read_section(const std::string& yaml, Seed seed = Seed{1}) {
  const Config config = Config::from_text(yaml, "requests.yaml");
  ConfigReader in = config.root();
  RequestTrace trace = read_requests(in, seed);
  in.finish();
  trace.validate();
  return trace;
}

TEST_CASE("constant: the k-th request arrives at k / rate") {
  const RequestTrace t = read_section("{kind: constant, rate: 4/s, count: 5, input_tokens: 10, output_tokens: 3}");
  REQUIRE(t.requests.size() == 5);
  for (std::size_t k = 0; k < 5; ++k) {
    CHECK(t.requests[k].arrival == std::chrono::milliseconds(250 * static_cast<int>(k)));
    CHECK(t.requests[k].input_tokens == 10);
    CHECK(t.requests[k].output_tokens == 3);
  }
  // 0, 0.25, ..., 0.75: four arrivals before 1 s.
  CHECK(read_section("{kind: constant, rate: 4/s, duration: 1s, input_tokens: 10, output_tokens: 3}").requests.size() ==
        4);
}

TEST_CASE("poisson: exponential gaps of the stated mean") {
  const std::string text = "{kind: poisson, rate: 4/s, count: 20000, input_tokens: 4096, output_tokens: 256}";
  const RequestTrace t = read_section(text);
  REQUIRE(t.requests.size() == 20000);
  RunningStats gaps;
  for (std::size_t i = 1; i < t.requests.size(); ++i) {
    gaps.add(to_seconds(t.requests[i].arrival - t.requests[i - 1].arrival).count());
  }
  // Mean 0.25 s with standard error 0.25 / sqrt(20000) = 0.0018; an exponential's deviation equals its mean.
  CHECK(gaps.mean() == doctest::Approx(0.25).epsilon(0.03));
  CHECK(std::sqrt(gaps.variance()) == doctest::Approx(0.25).epsilon(0.04));
  CHECK(read_section(text).requests[19999].arrival == t.requests[19999].arrival);
  CHECK(read_section(text, Seed{2}).requests[19999].arrival != t.requests[19999].arrival);
}

TEST_CASE("poisson: a duration bounds arrivals, and the count varies about rate x duration") {
  const RequestTrace t = read_section("{kind: poisson, rate: 100/s, duration: 60s, input_tokens: 1, output_tokens: 1}");
  CHECK(t.requests.back().arrival < std::chrono::seconds(60));
  CHECK(std::abs(static_cast<double>(t.requests.size()) - 6000) < 5 * std::sqrt(6000.0));
}

TEST_CASE("impossible plans are refused") {
  const std::string lengths = "input_tokens: 1, output_tokens: 1";
  struct Row {
    std::string yaml, part;
  };
  for (const Row& r : {
           Row{"{kind: poison, rate: 4/s}", "Known, the nearest first: poisson"},
           Row{"{kind: poisson, rate: 4/s, count: 5, duration: 1s, " + lengths + "}", "exactly one of count"},
           Row{"{kind: poisson, rate: 4/s, " + lengths + "}", "exactly one of count"},
           Row{"{kind: poisson, rate: 0/s, count: 5, " + lengths + "}", "greater than 0"},
           Row{"{kind: poisson, rate: 4/s, count: 5, input_tokens: 0, output_tokens: 1}", "greater than 0"},
           Row{"{kind: poisson, rate: 4/s, count: 5, input_tokens: 1, output_tokens: -1}", "greater than 0"},
           Row{"{kind: poisson, rate: 4/s, count: 1000000000, " + lengths + "}", "at most 1e+08"},
           Row{"{kind: constant, rate: 1e-6/s, count: 100, " + lengths + "}", "at most 9e6 s"},
           Row{"{kind: poisson, rate: 1e-3/s, duration: 1us, " + lengths + "}", "no request arrives"},
           Row{"{kind: poisson, rate: 4/s, count: 5, burst: 1, " + lengths + "}", "unknown key 'burst'"},
       }) {
    CAPTURE(r.yaml);
    CHECK(contains(message([&] { read_section(r.yaml); }), r.part));
  }
}

TEST_CASE("every source is listed with a sentence") {
  for (const RequestSource& s : request_sources()) {
    CHECK_FALSE(s.name.empty());
    CHECK(s.summary.size() > 10);
  }
}

TEST_CASE("a source reads the keys that it names as those of its rate") {
  for (const RequestSource& s : request_sources()) {
    CAPTURE(s.name);
    for (const std::string_view name : {s.rate_key, s.requests_key}) {
      CHECK((name.empty() || std::ranges::find(s.keys, name, &Key::name) != s.keys.end()));
    }
    CHECK((s.requests_key.empty() || !s.rate_key.empty()));
    CHECK((s.rate_key.empty() || s.generated));
  }
}

}  // namespace
}  // namespace epsim
