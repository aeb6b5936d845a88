// `epsim compare --seeds` through the program itself: killed or interrupted, and run again.
#include <doctest/doctest.h>

#include <string>

#include "tests/app/resume_support.h"

namespace fs = std::filesystem;
using epsim::test::contents;
using epsim::test::finished_parts;
using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::signal_after;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

// 2 runs of the first seed, 8 of the others.
const std::string kJob =
    "compare " + small_scenario() + " --policies base,eplb --only-listed --seeds 5 --set requests.count=400 ";

bool says_resumed(const Outcome& done) { return done.err.find(" already finished") != std::string::npos; }

}  // namespace

TEST_CASE("compare --seeds: killed at any moment, it goes on to the same bytes from the runs it finished") {
  const TempDir dir;
  const Outcome first = run_epsim(dir, kJob + "--threads 2 -o whole");
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  CHECK_FALSE(says_resumed(first));
  const auto whole = contents(dir / "whole");
  for (const std::size_t runs : {0, 1, 4}) {
    CAPTURE(runs);
    const std::string name = "killed" + std::to_string(runs);
    const fs::path kept = dir / ("." + name + ".runs");
    signal_after(SIGKILL, dir, kJob + "-q --threads 1 -o " + name, kept / "runs", runs);
    CHECK_FALSE(fs::exists(dir / name));
    const bool some = finished_parts(kept / "runs") > 0;
    CHECK(some == (runs > 0));
    const Outcome resumed = run_epsim(dir, kJob + "--threads 2 -o " + name);
    REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
    CHECK(says_resumed(resumed) == some);
    CHECK(contents(dir / name) == whole);
    CHECK_FALSE(fs::exists(kept));
  }
}

TEST_CASE("compare --seeds: runs of other inputs are not taken over") {
  const TempDir dir;
  signal_after(SIGKILL, dir, kJob + "-q --threads 1 -o out", dir / ".out.runs/runs", 2);
  REQUIRE(finished_parts(dir / ".out.runs/runs") >= 2);
  const Outcome other = run_epsim(dir, kJob + "--set requests.rate=30/s -o out");
  REQUIRE_MESSAGE(other.exit_code == 0, other.err);
  CHECK_FALSE(says_resumed(other));
  REQUIRE(run_epsim(dir, kJob + "--set requests.rate=30/s -q -o fresh").exit_code == 0);
  CHECK(contents(dir / "out") == contents(dir / "fresh"));
}

TEST_CASE("compare --seeds: after Ctrl-C the results cover complete seeds, and --overwrite goes on from them") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, kJob + "-q -o whole").exit_code == 0);
  const int status = signal_after(SIGINT, dir, kJob + "-q --threads 1 -o out", dir / ".out.runs/runs", 2);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  CHECK(fs::exists(dir / "out/comparison.json"));
  const Outcome resumed = run_epsim(dir, kJob + "--overwrite -o out");
  REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(says_resumed(resumed));
  CHECK(contents(dir / "out") == contents(dir / "whole"));
  CHECK_FALSE(fs::exists(dir / ".out.runs"));
}
