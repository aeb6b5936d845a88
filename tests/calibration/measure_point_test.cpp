// One point: what is timed, what is refused, and that nothing that went wrong is lost.
#include "calibration/measure/measure_point.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/calibration/fake_device.h"
#include "tests/support/errors.h"

namespace epsim::test {
namespace {

using namespace measure;

struct Bench {
  FakeClock clock;
  FakeDevice device{clock};
  StopRule rule;
  PlannedPoint point = gemm_point(128, 4096, 4096);
  PointResult run() { return measure_point(device, clock, point, rule); }
};

TEST_CASE("a quiet kernel gives its exact time after the least repeats") {
  Bench b;
  const PointResult r = b.run();
  REQUIRE(r.outcome == Outcome::kMeasured);
  const KernelTime& k = r.kernels.at(0);
  // 2 * 128 * 4096 * 4096 flops at 204.8 TF/s = 20.97 us; bytes: 2 * (128 * 4096 + 4096^2 + 128 * 4096) at 1 TB/s =
  // 35.65 us, which is more; and 2 us of launch.
  CHECK(k.time_s.median == doctest::Approx(2 * (2 * 128 * 4096. + 4096. * 4096.) / 1e12 + 2e-6));
  CHECK(k.repeats == b.rule.min_repeats);
  CHECK(k.batch == 2);  // 50 us hold 1.3 executions
  CHECK(r.sm_mhz == 1000);
}

TEST_CASE("a noisy kernel is repeated until its median is known to 2 %") {
  Bench b;
  b.device.ways[0].noise = 0.05;
  b.rule.budget = Seconds(10);
  const KernelTime k = b.run().kernels.at(0);
  CHECK(k.repeats > b.rule.min_repeats);
  CHECK(k.time_s.relative_half_width <= 0.02);
  CHECK(k.time_s.median == doctest::Approx(b.device.exact(b.point).count()).epsilon(0.03));
}

TEST_CASE("a point's time budget ends what noise would draw out") {
  Bench b;
  b.device.ways[0].noise = 0.5;
  b.point = gemm_point(16384, 8192, 8192);  // 10.7 ms
  const KernelTime k = b.run().kernels.at(0);
  CHECK(k.repeats < 60);  // 250 ms hold 23 of them on average
  CHECK(k.time_s.relative_half_width > 0.02);
}

TEST_CASE("the faster kernel wins and the other one stays known") {
  Bench b;
  b.device.ways = {{"slow", 1.5}, {"quick", 1.0}};
  const PointResult r = b.run();
  REQUIRE(r.kernels.size() == 2);
  CHECK(r.kernels[r.best].kernel == "quick");
  CHECK(r.kernels[0].time_s.median == doctest::Approx(1.5 * r.kernels[1].time_s.median));
}

TEST_CASE("a kernel with wrong results is not timed, another one is") {
  Bench b;
  b.device.ways = {{"wrong", 0.1, 0, 0.5}, {"right"}};
  const PointResult r = b.run();
  REQUIRE(r.outcome == Outcome::kMeasured);
  CHECK(r.kernels.size() == 1);
  CHECK(r.kernels[r.best].kernel == "right");
  check_contains(r.lost.at(0), {"wrong: wrong result: relative error 0.5, allowed 0.01; output 3 of 8"});
}

TEST_CASE("an error that is not a number is wrong") {
  Bench b;
  b.device.ways[0].error = std::numeric_limits<double>::quiet_NaN();
  const PointResult r = b.run();
  CHECK(r.outcome == Outcome::kFailed);
  CHECK(r.failure == FailureKind::kWrongResult);
}

TEST_CASE("memory, launches and timers that fail are recorded with their reason") {
  Bench b;
  b.device.on_prepare = [](const auto&) { throw MeasureFailed(FailureKind::kOutOfMemory, "40 GiB of 38 free"); };
  PointResult r = b.run();
  CHECK(r.outcome == Outcome::kFailed);
  CHECK(r.failure == FailureKind::kOutOfMemory);
  CHECK(r.reason == "40 GiB of 38 free");

  Bench c;
  c.device.ways[0].on_time = [] { throw MeasureFailed(FailureKind::kLaunch, "invalid configuration"); };
  r = c.run();
  CHECK(r.failure == FailureKind::kLaunch);
  check_contains(r.reason, {"fake: launch failed: invalid configuration"});

  Bench d;
  d.device.ways[0].slower = 0;
  check_contains(d.run().reason, {"the timer gave 0 s"});
}

TEST_CASE("what the machine cannot do is waived before anything is prepared") {
  Bench b;
  b.device.waive["dense_gemm"] = "no tensor cores";
  const PointResult r = b.run();
  CHECK(r.outcome == Outcome::kWaived);
  CHECK(r.reason == "no tensor cores");
  CHECK(b.device.prepared == 0);

  Bench c;
  c.device.on_prepare = [](const auto&) { throw MeasureFailed(FailureKind::kUnsupported, "head of 72"); };
  CHECK(c.run().outcome == Outcome::kWaived);
}

TEST_CASE("buffers rotate through twice the cache, within half of the free memory") {
  CHECK(rotating_sets(Bytes(10e6), Bytes(40e6), Bytes(1e12)) == 9);  // 80 MB and one
  CHECK(rotating_sets(Bytes(500e6), Bytes(40e6), Bytes(1e12)) == 2);
  CHECK(rotating_sets(Bytes(10e6), Bytes(40e6), Bytes(60e6)) == 3);
  CHECK(rotating_sets(Bytes(50e6), Bytes(40e6), Bytes(60e6)) == 1);
  CHECK(rotating_sets(Bytes(512), Bytes(40e6), Bytes(1e12)) == 64);
  CHECK(rotating_sets(Bytes(0), Bytes(40e6), Bytes(1e12)) == 1);
}

TEST_CASE("peaks follow from clocks as the data sheets have them") {
  GpuFacts a100;
  a100.compute_major = 8;
  a100.multiprocessors = 108;
  a100.clock_mhz = 1410;
  a100.memory_clock_mhz = 1593;
  a100.memory_bus_bits = 5120;
  CHECK(a100.peak("bf16").count() == doctest::Approx(312e12).epsilon(0.005));
  CHECK(a100.peak("fp8").count() == 0);
  CHECK(a100.memory_peak().count() == doctest::Approx(2039e9).epsilon(0.005));
  GpuFacts h100;
  h100.compute_major = 9;
  h100.multiprocessors = 132;
  h100.clock_mhz = 1830;
  CHECK(h100.peak("bf16").count() == doctest::Approx(989e12).epsilon(0.005));
  CHECK(h100.peak("fp8").count() == doctest::Approx(1979e12).epsilon(0.005));
}

}  // namespace
}  // namespace epsim::test
