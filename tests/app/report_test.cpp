// `epsim report` through the program itself.
#include <doctest/doctest.h>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("report: one file from a run, into the run's own folder or to where it is told") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out").exit_code == 0);
  const Outcome told = run_epsim(dir, "report out/ -o own.html");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  CHECK(told.out.find("report: own.html") == 0);
  const std::string html = slurp(dir / "own.html");
  CHECK(html.starts_with("<!DOCTYPE html>"));
  CHECK(html.find("<title>out</title>") != std::string::npos);
  CHECK(html.find(R"("hardware":{"p4de.24xlarge":{"gpu":"A100-80","gpus":8}})") != std::string::npos);
  CHECK(run_epsim(dir, "report out").exit_code == 0);
  CHECK(slurp(dir / "out/report.html") == html);
  CHECK(run_epsim(dir, "report out").exit_code == 2);  // it is there already
  CHECK(run_epsim(dir, "report out --overwrite").exit_code == 0);
  CHECK(slurp(dir / "out/report.html") == html);  // a report is not part of the next one
  std::ofstream(dir / "out/requests.csv") << "";
  const Outcome damaged = run_epsim(dir, "report out --overwrite");
  CHECK(damaged.exit_code == 2);
  CHECK(damaged.err.find("requests.csv:1: this file is empty") != std::string::npos);
}

// A folder that `epsim run` of version 0.2.0 wrote, result format 1: later versions have to read it.
TEST_CASE("report: results of version 0.2 open") {
  const TempDir dir;
  const Outcome told =
      run_epsim(dir, "report '" + (epsim::test::data_dir() / "results-0.2").string() + "' -o old.html");
  REQUIRE_MESSAGE(told.exit_code == 0, told.err);
  const std::string html = slurp(dir / "old.html");
  CHECK(html.find("1618fcd90abaa917") != std::string::npos);  // the run's fingerprint
  CHECK(html.find(R"("cluster":{"node":"p4de.24xlarge","nodes":"1","gpus_per_node":"2")") != std::string::npos);
}

TEST_CASE("report refuses wrong arguments with a clear error and writes nothing") {
  struct Wrong {
    const char* arguments;
    const char* says;
  };
  const TempDir dir;
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out").exit_code == 0);
  std::ofstream(dir / "here.html") << "mine";
  for (const Wrong& wrong :
       {Wrong{"", "name the output"}, Wrong{"nowhere", "no such folder"}, Wrong{"out -o report.txt", "ends in .html"},
        Wrong{"out -o no/such/report.html", "no such folder"}, Wrong{"out -o here.html", "--overwrite"},
        Wrong{"out/summary.json -o x.html", "name its folder"}, Wrong{"out more", "too many arguments"},
        Wrong{". -o x.html --overwrit", "overwrite"}}) {
    CAPTURE(wrong.arguments);
    const Outcome refused = run_epsim(dir, std::string("report ") + wrong.arguments);
    CHECK(refused.exit_code == 2);
    CHECK_MESSAGE(refused.err.find(wrong.says) != std::string::npos, refused.err, " does not say ", wrong.says);
  }
  CHECK(slurp(dir / "here.html") == "mine");
  CHECK_FALSE(std::filesystem::exists(dir / "report.txt"));
}
