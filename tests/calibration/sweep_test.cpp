// The loop over a plan: time, progress, what is kept when it ends early, going on later.
#include "calibration/measure/sweep.h"

#include <doctest/doctest.h>

#include <stdexcept>

#include "sim/core/error.h"
#include "tests/calibration/fake_device.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

using namespace measure;

struct SweepBench {
  TempDir folder;
  FakeClock clock;
  FakeDevice device{clock};
  SweepOptions options;
  std::vector<std::string> lines;
  std::vector<PlannedPoint> plan;

  explicit SweepBench(int points) {
    options.output = folder / "points.h5";
    options.say = [this](const std::string& line) { lines.push_back(line); };
    for (int i = 0; i < points; ++i) {
      plan.push_back(gemm_point(i + 1, 512, 512));
      plan.back().cost = Seconds(0.05);
    }
  }
  static Provenance where() {
    Provenance p;
    p.machine = "fake";
    p.gpu = "NVIDIA Fake-1000";
    p.driver = "1";
    p.git_revision = "abc";
    p.date = "today";
    return p;
  }
  Results fresh = Results(where());
  SweepSummary run(Results& results) { return run_sweep(device, clock, plan, options, results); }
  PointFile kept() const { return read_points(options.output); }
};

TEST_CASE("every point of a plan ends up in the file, in the order measured") {
  SweepBench b(5);
  const SweepSummary s = b.run(b.fresh);
  CHECK(s.end == SweepEnd::kDone);
  CHECK(s.measured == 5);
  const PointFile file = b.kept();
  const PointTable& t = *file.find("dense_gemm");
  REQUIRE(t.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(t.values_of("m")[i] == static_cast<double>(i) + 1);
    CHECK(t.time_s[i] == doctest::Approx(b.device.exact(b.plan[i]).count()));
    CHECK(t.values_of("flops")[i] == 2 * (static_cast<double>(i) + 1) * 512 * 512);
    CHECK(t.values_of("sm_mhz")[i] == 1000);
    CHECK(t.repeats[i] == 7 * static_cast<std::int64_t>(t.values_of("timed_together")[i]));
  }
  CHECK(t.attributes.at("kernels") == "fake");
  CHECK(file.provenance.gpu == "NVIDIA Fake-1000");
  check_contains(file.provenance.clocks, {"SM 1000 to 1000 MHz"});
  check_contains(file.provenance.throttle, {"0 of 5 points"});
}

TEST_CASE("the time budget ends the sweep and says what is left") {
  SweepBench b(100);
  b.device.preparation = Seconds(1);
  b.options.budget = Seconds(10);
  const SweepSummary s = b.run(b.fresh);
  CHECK(s.end == SweepEnd::kBudget);
  CHECK(s.measured == 10);  // a point takes a little over a second, so the tenth begins just in time
  CHECK(s.left == 90);
  check_contains(b.kept().provenance.notes, {"not measured: 90 planned points (time budget)"});
}

TEST_CASE("Ctrl-C finishes the point under way and keeps everything") {
  SweepBench b(50);
  b.options.interrupted = [&] { return b.device.prepared >= 7; };
  const SweepSummary s = b.run(b.fresh);
  CHECK(s.end == SweepEnd::kInterrupted);
  CHECK(b.kept().find("dense_gemm")->size() == 7);
  CHECK(s.left == 43);
}

TEST_CASE("a crash of the device loses no point measured before it") {
  SweepBench b(50);
  b.options.checkpoint_every = Seconds(1000);
  b.device.on_prepare = [&](const auto&) {
    if (b.device.prepared == 9) {
      throw std::runtime_error("the bus fell off");
    }
  };
  CHECK_THROWS_WITH(b.run(b.fresh), "the bus fell off");
  CHECK(b.kept().find("dense_gemm")->size() == 8);
}

TEST_CASE("a point that breaks the device ends the sweep, and comes last when it is resumed") {
  SweepBench b(6);
  b.device.on_prepare = [&](const PlannedPoint& p) {
    if (p.value("m") == 3) {
      b.device.broken = true;
      throw MeasureFailed(FailureKind::kLaunch, "an illegal memory access");
    }
  };
  check_contains(error_of<RunFailed>([&] { b.run(b.fresh); }).what(), {"dense_gemm m=3", "--resume"});
  CHECK(b.kept().find("dense_gemm")->size() == 2);

  Results again = Results::resume(SweepBench::where(), b.options.output);
  b.device.broken = false;
  CHECK_THROWS_AS(b.run(again), RunFailed);
  CHECK(b.kept().find("dense_gemm")->size() == 5);  // all the others first
}

TEST_CASE("checkpoints are on the disk while the sweep goes on, whole at every moment") {
  SweepBench b(30);
  b.device.preparation = Seconds(1);
  b.options.checkpoint_every = Seconds(10);  // which ten points of a little over a second take
  std::vector<std::size_t> seen;
  b.device.on_prepare = [&](const auto&) {
    if (std::filesystem::exists(b.options.output)) {
      seen.push_back(b.kept().find("dense_gemm")->size());
    }
  };
  b.run(b.fresh);
  REQUIRE(seen.size() == 20);
  CHECK(seen.front() == 10);
  CHECK(seen.back() == 20);
}

TEST_CASE("a resumed sweep measures what is missing and nothing twice") {
  SweepBench b(20);
  b.options.interrupted = [&] { return b.device.prepared >= 8; };
  b.run(b.fresh);
  const PointFile before = b.kept();

  b.options.interrupted = [] { return false; };
  b.device.prepared = 0;
  Results again = Results::resume(SweepBench::where(), b.options.output);
  const SweepSummary s = b.run(again);
  CHECK(s.already == 8);
  CHECK(s.measured == 12);
  CHECK(b.device.prepared == 12);
  const PointTable after = *b.kept().find("dense_gemm");
  REQUIRE(after.size() == 20);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(after.time_s[i] == before.find("dense_gemm")->time_s[i]);
  }
  CHECK(b.kept().provenance.notes.find("not measured") == std::string::npos);
}

TEST_CASE("points of another machine or program are not gone on with") {
  SweepBench b(2);
  b.run(b.fresh);
  const auto key_of = [&](auto change) {
    Provenance other = SweepBench::where();
    change(other);
    return error_of<InputError>([&] { Results::resume(other, b.options.output); }).place.key;
  };
  CHECK(key_of([](Provenance& p) { p.gpu = "NVIDIA Fake-2000"; }) == "gpu");
  CHECK(key_of([](Provenance& p) { p.driver = "2"; }) == "driver");
  CHECK(key_of([](Provenance& p) { p.git_revision = "abd"; }) == "git_revision");
  CHECK(key_of([](Provenance& p) { p.cuda = "13.1"; }) == "cuda");
  Provenance later = SweepBench::where();
  later.date = "tomorrow";
  CHECK(Results::resume(later, b.options.output).measured() == 2);
}

TEST_CASE("failures are kept with their reason, and tried again when resumed") {
  SweepBench b(4);
  b.device.on_prepare = [](const PlannedPoint& p) {
    if (p.value("m") == 3) {
      throw MeasureFailed(FailureKind::kOutOfMemory, "no room");
    }
  };
  const SweepSummary s = b.run(b.fresh);
  CHECK(s.measured == 3);
  CHECK(s.failed == 1);
  CHECK(b.kept().find("dense_gemm")->attributes.at("failed: dense_gemm m=3 n=512 k=512") == "out of memory: no room");

  b.device.on_prepare = [](const auto&) {};
  Results again = Results::resume(SweepBench::where(), b.options.output);
  CHECK(again.failed() == 1);
  CHECK(b.run(again).measured == 1);
  CHECK(again.failed() == 0);
  CHECK(b.kept().find("dense_gemm")->size() == 4);
  CHECK(b.kept().find("dense_gemm")->attributes.count("failed: dense_gemm m=3 n=512 k=512") == 0);
}

TEST_CASE("an operator of which every point fails still has a table that says so") {
  SweepBench b(2);
  b.device.ways[0].error = 1;
  CHECK(b.run(b.fresh).failed == 2);
  const PointTable t = *b.kept().find("dense_gemm");
  CHECK(t.size() == 0);
  check_contains(t.attributes.at("failed: dense_gemm m=1 n=512 k=512"), {"wrong result"});
}

TEST_CASE("a kernel lost beside a good one is in the file, and the winner has its name") {
  SweepBench b(3);
  b.device.ways = {{"one", 2}, {"two", 1}, {"three", 0.5, 0, 1.0}};
  b.run(b.fresh);
  const PointTable t = *b.kept().find("dense_gemm");
  CHECK(t.attributes.at("kernels") == "two");
  CHECK(t.values_of("other_s")[0] == doctest::Approx(2 * t.time_s[0]));
  CHECK(t.values_of("kernel")[0] == 0);
  check_contains(t.attributes.at("failed: dense_gemm m=1 n=512 k=512 kernel three"), {"wrong result"});
}

TEST_CASE("the remaining time learns how long points really take") {
  SweepBench b(10);
  std::vector<const PlannedPoint*> points;
  for (const PlannedPoint& p : b.plan) {
    points.push_back(&p);
  }
  RemainingTime left(points);
  CHECK(left.left().count() == doctest::Approx(0.5));  // ten points of 0.05 s
  left.finished(b.plan[0], Seconds(0.15));
  CHECK(left.left().count() == doctest::Approx(9 * 0.05 * 3));
}

TEST_CASE("each point has one line with its rate and the time left") {
  SweepBench b(2);
  b.plan[0] = gemm_point(8192, 8192, 8192);
  b.device.waive["norm"] = "because";
  b.run(b.fresh);
  REQUIRE(b.lines.size() == 2);
  // 2 * 8192^3 flops in 5.369 ms and 2 us of launch: 204.7 of 204.8 TF/s.
  check_contains(b.lines[0],
                 {"[1/2] dense_gemm m=8192", "5.371 ms", "(fake)", "204.7 TFLOP/s", "100.0 % of peak", "left"});
}

TEST_CASE("throttled points are counted") {
  SweepBench b(3);
  b.device.throttle = 0x20;
  b.run(b.fresh);
  check_contains(b.kept().provenance.throttle, {"3 of 3 points", "0x20"});
}

TEST_CASE("a file that cannot be written fails the sweep") {
  SweepBench b(1);
  b.options.output = b.folder / "nowhere" / "points.h5";
  CHECK_THROWS_AS(b.run(b.fresh), RunFailed);
}

}  // namespace
}  // namespace epsim::test
