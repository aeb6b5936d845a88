// The time axis of a run, against sums that the run's own figures give.
#include "sim/cluster/run_series.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/cluster/simulate.h"
#include "tests/cluster/random_deployment.h"

namespace epsim {
namespace {

using test::FixedPricer;
using test::kMs;
using test::one_rank;
using test::trace_of;

constexpr Ticks kSecond{1'000'000'000'000};

struct SeriesSums {
  double in_system = 0, kv_blocks_share = 0, seconds = 0;  // integrals over time
  std::int64_t output_tokens = 0, first_tokens = 0;
};

SeriesSums sums_of(const RunSeries& series) {
  SeriesSums out;
  for (const SeriesPoint& p : series.points) {
    out.in_system += (p.running + p.queued) * p.length.count();
    out.kv_blocks_share += p.kv_use * p.length.count();
    out.seconds += p.length.count();
    out.output_tokens += p.output_tokens;
    out.first_tokens += p.first_tokens;
  }
  return out;
}

}  // namespace

TEST_CASE("series: levels are spread over the stretches that they last, and tokens count where their step ran") {
  SeriesRecorder series;
  // 4 requests run for the first 1.5 s, then 2 until 256 s, when 10 tokens come out: 256 stretches of 1 s.
  series.advance(kSecond * 3 / 2, {.running = 4, .queued = 1, .kv_blocks = 50});
  series.advance(kSecond * 256, {.running = 2});
  series.hand_out(10);
  const RunSeries out = series.finish(kSecond * 256, 100, {});
  CHECK(out.width == kSecond);
  REQUIRE(out.points.size() == 256);
  CHECK(out.points[0].running == doctest::Approx(4));
  CHECK(out.points[0].queued == doctest::Approx(1));
  CHECK(out.points[0].kv_use == doctest::Approx(0.5));
  CHECK(out.points[1].running == doctest::Approx(3));    // half of it 4, half of it 2
  CHECK(out.points[1].kv_use == doctest::Approx(0.25));  // half of it 50 of 100
  CHECK(out.points[2].running == doctest::Approx(2));
  CHECK(out.points[255].output_tokens == 10);
  CHECK(out.points[255].start.count() == 255);
}

TEST_CASE("series: the share of a part of the time in which GPUs step") {
  SeriesRecorder series;
  series.advance(kSecond * 128, {.stepping_gpus = 8});
  series.advance(kSecond * 192, {.stepping_gpus = 4});
  series.advance(kSecond * 256, {});
  const RunSeries out = series.finish(kSecond * 256, 0, {});
  CHECK(out.points[191].stepping_gpus == doctest::Approx(4));
  CHECK(stepping_share(out, 8, Ticks{}, kSecond * 256) == doctest::Approx((128.0 + 32) / 256));
  // From within one stretch of 1 s to within another: 27.5 s of all, 32 s of half, 0.5 s of none.
  CHECK(stepping_share(out, 8, kSecond * 201 / 2, kSecond * 193 - kSecond / 2) == doctest::Approx((27.5 + 32) / 92));
  CHECK(stepping_share(out, 8, kSecond, kSecond) == 0);
}

TEST_CASE("series: 106 days take no more stretches than a second, and lose nothing") {
  SeriesRecorder series;
  Ticks now{};
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < 9000; ++i) {
    now += kSecond * (1 + i % 2000);  // 104 days
    series.advance(now, {.running = 1});
    series.hand_out(3);
    tokens += 3;
  }
  const RunSeries out = series.finish(now, 1, {});
  CHECK(out.points.size() <= SeriesRecorder::kMostStretches);
  CHECK(out.points.size() > SeriesRecorder::kMostStretches / 2);
  const SeriesSums sums = sums_of(out);
  CHECK(sums.output_tokens == tokens);
  CHECK(sums.in_system == doctest::Approx(to_seconds(now).count()));  // one request all the time
  CHECK(sums.seconds == doctest::Approx(to_seconds(now).count()));
}

TEST_CASE("series: TTFT stands where the first token came") {
  // Steps of 500 ms; A's first token at 500 ms, B waits for the chunk budget and has its own at 1 s.
  FixedPricer pricer(500_ms);
  const RunResult run = simulate(trace_of({{0, 100, 2}, {0, 100, 2}}), one_rank(100, false), pricer, {});
  std::vector<double> ttft_ms, at_s;
  for (const SeriesPoint& p : run.series.points) {
    if (p.first_tokens > 0) {
      ttft_ms.push_back(p.ttft_sum.count() * 1e3 / static_cast<double>(p.first_tokens));
      at_s.push_back((p.start + p.length).count());
    }
  }
  REQUIRE(ttft_ms.size() == 2);
  CHECK(ttft_ms[0] == doctest::Approx(500));
  CHECK(ttft_ms[1] == doctest::Approx(1000));
  CHECK(at_s[0] == doctest::Approx(0.5));
  CHECK(at_s[1] == doctest::Approx(1.0));
}

TEST_CASE("series of random deployments: all tokens, the mean number in the system, the mean KV use") {
  for (std::uint64_t i = 0; i < 200; ++i) {
    CAPTURE(i);
    RandomStream random(Seed{2031}, "series", i);
    const RequestTrace trace = test::random_trace(random);
    test::RandomDeployment deployment(random);
    for (std::size_t n = 0; n < deployment.specs.size(); ++n) {
      deployment.specs[n].gpus = static_cast<int>(n) + 1;
    }
    const RunResult run = simulate(trace, deployment.specs, deployment.router, {});
    double stepping = 0;
    for (std::size_t n = 0; n < deployment.specs.size(); ++n) {
      stepping += run.instances[n].time.total.count() * deployment.specs[n].gpus;
    }
    const SeriesSums sums = sums_of(run.series);
    CHECK(sums.output_tokens == run.output_tokens);
    CHECK(sums.first_tokens == run.completed);
    CHECK(stepping_share(run.series, 1, Ticks{}, run.end) * to_seconds(run.end).count() == doctest::Approx(stepping));
    CHECK(sums.in_system / to_seconds(run.end).count() == doctest::Approx(run.conservation.little_l));
    for (const SeriesPoint& p : run.series.points) {
      CHECK(p.running >= 0);
      CHECK(p.queued >= -1e-9);
      CHECK(p.kv_use <= 1 + 1e-9);
    }
    CHECK(sums.kv_blocks_share / to_seconds(run.end).count() == doctest::Approx(run.kv.mean_use));
  }
}

}  // namespace epsim
