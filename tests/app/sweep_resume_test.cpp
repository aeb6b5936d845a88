// `epsim sweep` through the program itself: killed, resumed, and asked to go on with something else.
#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/resume_support.h"

namespace fs = std::filesystem;
using epsim::test::contents;
using epsim::test::end_of;
using epsim::test::finished_parts;
using epsim::test::kSweepJob;
using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::signal_after;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::start_epsim;
using epsim::test::TempDir;

TEST_CASE("sweep: killed at any moment, it goes on to the same bytes and recomputes nothing") {
  const TempDir dir;
  const std::string job = kSweepJob + "--set requests.count=80 --threads 2 -o ";
  std::string loud = job;
  loud.erase(loud.find(" -q"), 3);
  REQUIRE(run_epsim(dir, job + "whole").exit_code == 0);
  const auto whole = contents(dir / "whole");
  for (const std::size_t points : {0, 3, 12}) {
    CAPTURE(points);
    const fs::path folder = dir / ("killed" + std::to_string(points));
    signal_after(SIGKILL, dir, job + folder.filename().string(), folder / "points", points);
    const std::size_t finished = finished_parts(folder / "points");
    CHECK(finished >= points);
    if (finished > 0) {  // as a kill leaves them in the middle of a write
      std::ofstream(folder / "results.csv.tmp999999999") << "half a tab";
      std::error_code merged;  // the kill may have come when all parts were one file
      for (const auto& entry : fs::directory_iterator(folder / "points", merged)) {
        if (entry.path().extension() == ".pack") {
          std::ofstream(entry.path(), std::ios::app) << "job 5000 0 ok 000003\nhalf a poi";
        }
      }
    }
    const Outcome resumed = run_epsim(dir, loud + folder.filename().string());
    REQUIRE_MESSAGE(resumed.exit_code == 0, resumed.err);
    // One part may have been cut short by the kill: its header counts above, and the sweep makes it again.
    const auto said = resumed.err.find(" already finished");
    const std::size_t kept = said == std::string::npos ? 0 : std::stoul(resumed.err.substr(std::strlen("epsim: ")));
    CHECK_MESSAGE((kept == finished || kept + 1 == finished), resumed.err);
    CHECK(contents(folder) == whole);
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
  refused("--vary cluster.nodes=1,2,4", "value 3 of --vary cluster.nodes was absent and is \"4\"");
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
  CHECK(rebuilt.err.find("of another build of epsim (program_hash 0000000000000000;") != std::string::npos);
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
  std::string pack = slurp(dir / "out/points.pack");
  pack[pack.find("requests_per_s")] = '?';  // of point 0
  std::ofstream(dir / "out/points.pack") << pack;
  CHECK(run_epsim(dir, job).exit_code == 0);
  CHECK(contents(dir / "out") == before);
  std::ofstream(dir / "r.csv", std::ios::app) << "1,700,7\n";
  const Outcome changed = run_epsim(dir, job);
  CHECK(changed.exit_code == 2);
  CHECK(changed.err.find("r.csv") != std::string::npos);
  CHECK(changed.err.find("has changed since point 0") != std::string::npos);
}

TEST_CASE("sweep: processes that start together share the points, and leave what one leaves") {
  const TempDir dir;
  const std::string job = kSweepJob + "--set requests.count=80 --threads 1 -o ";
  REQUIRE(run_epsim(dir, job + "whole").exit_code == 0);
  std::vector<pid_t> processes;
  for (int i = 0; i < 3; ++i) {
    processes.push_back(start_epsim(dir, job + "shared"));
  }
  for (const pid_t process : processes) {
    CHECK(end_of(process) == 0);
  }
  CHECK(contents(dir / "shared") == contents(dir / "whole"));
  CHECK(finished_parts(dir / "shared/points") == 12);  // each once
}

TEST_CASE("sweep: what a killed process was at is taken over by one that is at work") {
  const TempDir dir;
  const std::string job = kSweepJob + "--set requests.count=80 --threads 1 -o ";
  REQUIRE(run_epsim(dir, job + "whole").exit_code == 0);
  const pid_t first = start_epsim(dir, job + "shared");
  while (finished_parts(dir / "shared/points") < 2) {
    usleep(200);
  }
  const pid_t second = start_epsim(dir, job + "shared");
  while (finished_parts(dir / "shared/points") < 5) {
    usleep(200);
  }
  kill(first, SIGKILL);
  end_of(first);
  CHECK(end_of(second) == 0);
  CHECK(contents(dir / "shared") == contents(dir / "whole"));
}

TEST_CASE("sweep: while a process is at work nothing takes its folder away") {
  const TempDir dir;
  const std::string job = "sweep " + small_scenario() + " -q --threads 1 --vary seed=1,2,3,4,5,6 -o out ";
  const pid_t at_work = start_epsim(dir, job + "--set requests.count=2000");
  while (finished_parts(dir / "out/points") < 1) {
    usleep(200);
  }
  kill(at_work, SIGSTOP);
  const Outcome refused = run_epsim(dir, job + "--set requests.count=2000 --overwrite");
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(refused.err.find(", process " + std::to_string(at_work) + ")") != std::string::npos, refused.err);
  kill(at_work, SIGCONT);
  CHECK(end_of(at_work) == 0);
}

TEST_CASE("sweep: parts of it in any order, and the command without --shard gathers them") {
  const TempDir dir;
  const std::string job = kSweepJob + "--set requests.count=80 -o ";
  REQUIRE(run_epsim(dir, job + "whole").exit_code == 0);
  for (const char* part : {"3/3", "1/3", "2/3", "2/3"}) {
    const Outcome done = run_epsim(dir, job + "out --shard " + part);
    CHECK(done.exit_code == 0);
    CHECK(done.out.find(std::string("part ") + part[0] + " of 3 is finished") != std::string::npos);
    CHECK_FALSE(fs::exists(dir / "out/results.csv"));
  }
  CHECK(finished_parts(dir / "out/points") == 12);
  std::string loud = job;
  loud.erase(loud.find(" -q"), 3);
  CHECK(run_epsim(dir, loud + "out").err.find("12 points already finished") != std::string::npos);
  CHECK(contents(dir / "out") == contents(dir / "whole"));
  // A part that was not run is made up for.
  CHECK(run_epsim(dir, job + "late --shard 1/2").exit_code == 0);
  CHECK(run_epsim(dir, job + "late").exit_code == 0);
  CHECK(contents(dir / "late") == contents(dir / "whole"));
}

TEST_CASE("sweep: parts that do not exist, and inputs that differ between parts, are refused") {
  const TempDir dir;
  std::ofstream(dir / "own.yaml") << slurp(epsim::test::data_dir() / "small.yaml");
  const std::string job = "sweep own.yaml -q --vary cluster.nodes=1,2 ";
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const Outcome done = run_epsim(dir, job + arguments);
    CHECK(done.exit_code == 2);
    CHECK_MESSAGE(done.err.find(says) != std::string::npos, done.err, " does not say ", says);
  };
  refused("--shard 0/2 -o out", "there is no part 0 of 2");
  refused("--shard 3/2 -o out", "there is no part 3 of 2");
  refused("--shard 1of2 -o out", "write i/n, as in 3/8");
  refused("--shard 1/2x -o out", "write i/n");
  refused("--shard 1/2", "name the folder that all parts share");
  CHECK_FALSE(fs::exists(dir / "out"));
  REQUIRE(run_epsim(dir, job + "-o out --shard 1/2").exit_code == 0);
  const auto before = contents(dir / "out");
  std::ofstream(dir / "own.yaml", std::ios::app) << "# changed\n";
  refused("-o out --shard 2/2", "scenario_hash was");
  CHECK(contents(dir / "out") == before);
}

TEST_CASE("sweep: a disk that takes no more is named, and the same command goes on once it does") {
  const TempDir dir;
  const std::string job = kSweepJob + "--set requests.count=80 -o ";
  REQUIRE(run_epsim(dir, job + "whole").exit_code == 0);
  // No file may grow beyond so many blocks of 512 bytes, as on a full disk: the error is EFBIG.
  const auto fails_with = [&](int blocks, const std::string& says) {
    const std::string command = "cd '" + dir.path().string() + "' && trap '' XFSZ && ulimit -f " +
                                std::to_string(blocks) + " && '" EPSIM_BINARY "' " + job +
                                "out >/dev/null 2>stderr.txt";
    CHECK(WEXITSTATUS(std::system(command.c_str())) == 1);
    const std::string err = slurp(dir / "stderr.txt");
    CHECK_MESSAGE(err.find(says) != std::string::npos, err);
  };
  fails_with(40, "cannot be written: File too large. Finished results are kept; rerun the same command to continue");
  CHECK(finished_parts(dir / "out/points") > 0);
  CHECK(run_epsim(dir, job + "out").exit_code == 0);
  CHECK(contents(dir / "out") == contents(dir / "whole"));
  fails_with(8, "cannot be written");  // the tables: results.csv and results.h5
  CHECK(run_epsim(dir, job + "out").exit_code == 0);
  CHECK(contents(dir / "out") == contents(dir / "whole"));
}

TEST_CASE("sweep: options of Slurm are checked before anything is written") {
  const TempDir dir;
  const std::string job = "sweep " + small_scenario() + " -q --vary cluster.nodes=1,2 -o out ";
  const auto refused = [&](const std::string& arguments, const std::string& says) {
    const Outcome done = run_epsim(dir, job + arguments);
    CHECK(done.exit_code == 2);
    CHECK_MESSAGE(done.err.find(says) != std::string::npos, done.err, " does not say ", says);
    CHECK_FALSE(fs::exists(dir / "out"));
  };
  refused("--slurm --array 0", "0 is not a number of parts from 1 to 100000");
  refused("--slurm --array -1", "-1 is not a number of parts from 1 to 100000");
  refused("--slurm --shard 1/2", "leave --shard out");
  refused("--array 3", "this option is for --slurm");
  refused("--submit", "this option is for --slurm");
  // What would run is quoted for the shell.
  const Outcome written = run_epsim(dir, job + "--slurm --array 5 --partition 'a;b' --time 1:00 --vary 'seed=1,2'");
  REQUIRE(written.exit_code == 0);
  CHECK(written.out.find("submit it with: sh 'out/slurm/submit.sh'\n") != std::string::npos);
  const std::string script = slurp(dir / "out/slurm/submit.sh");
  // Two numbers of nodes under two seeds: four points, so that a fifth part would have nothing to run.
  for (const char* part : {"--array=1-4 ", "--partition='a;b' --time='1:00'", "--dependency=\"afterany:${parts%%;*}\"",
                           "'--vary' 'seed=1,2'", "--shard \"$SLURM_ARRAY_TASK_ID/4\""}) {
    CHECK_MESSAGE(script.find(part) != std::string::npos, part, " is not in ", script);
  }
}

TEST_CASE("sweep: --status counts what is done, failed and left") {
  const TempDir dir;
  const std::string job = "sweep " + small_scenario() + " -q --set requests.count=6 --vary cluster.nodes=1,2,3 -o out ";
  REQUIRE(run_epsim(dir, job + "--shard 3/3").exit_code == 0);  // 64 experts over 24 GPUs
  const Outcome status = run_epsim(dir, "sweep --status out");
  CHECK(status.exit_code == 0);
  CHECK_MESSAGE(status.out.find("1 of 3 points done, 1 of them failed; 0 running, 2 left") != std::string::npos,
                status.out);
  CHECK(status.out.find("--retry-failed") != std::string::npos);
  const Outcome none = run_epsim(dir, "sweep --status nowhere");
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("there is no such folder") != std::string::npos);
  CHECK(run_epsim(dir, "sweep --status .").err.find("the folder holds no sweep") != std::string::npos);
}
