// `epsim sweep` through the program itself: killed, resumed, and asked to go on with something else.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/resume_support.h"

namespace fs = std::filesystem;
using epsim::test::contents;
using epsim::test::finished_parts;
using epsim::test::kSweepJob;
using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::signal_after;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("sweep: killed at any moment, it goes on to the same bytes and recomputes nothing") {
  const TempDir dir;
  const std::string job = kSweepJob + "--set requests.count=80 --threads 2 -o ";
  REQUIRE(run_epsim(dir, job + "whole").exit_code == 0);
  const auto whole = contents(dir / "whole");
  for (const std::size_t points : {0, 3, 12}) {
    CAPTURE(points);
    const fs::path folder = dir / ("killed" + std::to_string(points));
    signal_after(SIGKILL, dir, job + folder.filename().string(), folder / "points", points);
    std::map<fs::path, fs::file_time_type> written;
    if (finished_parts(folder / "points") > 0) {
      for (const auto& entry : fs::directory_iterator(folder / "points")) {
        written[entry.path()] = entry.last_write_time();
      }
      std::ofstream(folder / "points/000003.json.tmp1") << "half a poi";
    }
    const Outcome resumed = run_epsim(dir, job + folder.filename().string());
    REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
    CHECK(contents(folder) == whole);
    for (const auto& [file, time] : written) {
      if (file.extension() == ".json") {
        CHECK(fs::last_write_time(file) == time);
      }
    }
  }
}

TEST_CASE("sweep: Ctrl-C keeps what is finished, and says so") {
  const TempDir dir;
  const std::string job =
      "sweep " + small_scenario() + " -q --threads 1 --set requests.count=1000 --vary seed=1,2,3,4,5,6 -o ";
  const int status = signal_after(SIGINT, dir, job + "out", dir / "out/points", 1);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);
  const std::size_t finished = finished_parts(dir / "out/points");
  CHECK(finished >= 1);
  CHECK(finished < 6);
  CHECK_FALSE(fs::exists(dir / "out/results.csv"));
  CHECK(run_epsim(dir, job + "out").exit_code == 0);
  CHECK(run_epsim(dir, job + "whole").exit_code == 0);
  CHECK(contents(dir / "out") == contents(dir / "whole"));
}

TEST_CASE("sweep: goes on only with the inputs it began with") {
  const TempDir dir;
  std::ofstream(dir / "own.yaml") << slurp(epsim::test::data_dir() / "small.yaml");
  const std::string job = "sweep own.yaml -q -o out ";
  REQUIRE(run_epsim(dir, job + "--vary cluster.nodes=1,2").exit_code == 0);
  const auto before = contents(dir / "out");
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const Outcome done = run_epsim(dir, job + arguments);
    CHECK(done.exit_code == 2);
    CHECK_MESSAGE(done.err.find(says) != std::string::npos, done.err, " does not say ", says);
    CHECK(done.err.find("--overwrite") != std::string::npos);
    CHECK(contents(dir / "out") == before);
  };
  refused("--vary cluster.nodes=1,2,4", "axes/0/values/2 was absent and is \"4\"");
  refused("--vary cluster.nodes=1,2 --seed 9", "overrides/0");
  refused("--vary cluster.nodes=1,2 --policies eplb", "policies/0");
  refused("--vary cluster.nodes=1,2 --measure goodput", "measure was \"run\" and is \"goodput\"");
  std::ofstream(dir / "own.yaml", std::ios::app) << "# changed\n";
  refused("--vary cluster.nodes=1,2", "scenario_hash");
  CHECK(run_epsim(dir, job + "--vary cluster.nodes=1,2 --overwrite").exit_code == 0);

  auto manifest = nlohmann::ordered_json::parse(slurp(dir / "out/sweep.json"));
  manifest["program_hash"] = "0000000000000000";
  std::ofstream(dir / "out/sweep.json") << manifest.dump();
  const Outcome rebuilt = run_epsim(dir, job + "--vary cluster.nodes=1,2");
  CHECK(rebuilt.exit_code == 2);
  CHECK(rebuilt.err.find("program_hash") != std::string::npos);
}

TEST_CASE("sweep: a file that a point read must not change, and a damaged point is run again") {
  const TempDir dir;
  std::ofstream(dir / "r.csv") << "t,i,o\n0,500,5\n0.5,600,6\n";
  const std::string job = "sweep " + small_scenario() +
                          " -q --set 'requests={kind: csv, path: r.csv, arrival_column: t, input_column: i, "
                          "output_column: o}' --vary cluster.nodes=1,2 -o out ";
  const Outcome first = run_epsim(dir, job);
  REQUIRE_MESSAGE(first.exit_code == 0, first.err, first.out);
  const auto before = contents(dir / "out");
  std::ofstream(dir / "out/points/000001.json") << "{\"format\": 1, \"poi";
  CHECK(run_epsim(dir, job).exit_code == 0);
  CHECK(contents(dir / "out") == before);
  std::ofstream(dir / "r.csv", std::ios::app) << "1,700,7\n";
  const Outcome changed = run_epsim(dir, job);
  CHECK(changed.exit_code == 2);
  CHECK(changed.err.find("r.csv") != std::string::npos);
  CHECK(changed.err.find("has changed since point 0") != std::string::npos);
}

TEST_CASE("sweep: two processes do not share a folder") {
  const TempDir dir;
  const std::string job = "sweep " + small_scenario() + " -q --vary seed=1,2 -o out ";
  REQUIRE(run_epsim(dir, job).exit_code == 0);
  const int held = open((dir / "out").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(held, LOCK_EX) == 0);
  for (const char* more : {"", "--overwrite"}) {
    const Outcome done = run_epsim(dir, job + more);
    CHECK(done.exit_code == 2);
    CHECK(done.err.find("another process works on this sweep") != std::string::npos);
  }
  close(held);
  CHECK(run_epsim(dir, job).exit_code == 0);
}
