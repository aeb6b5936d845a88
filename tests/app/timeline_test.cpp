// `epsim run --timeline` through the program itself.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/app/process.h"
#include "tests/report/timeline_checks.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("timeline: a trace of the steps asked for beside the run's files, which do not change") {
  const TempDir dir;
  const std::string job = "run " + small_scenario() + " -q ";
  REQUIRE(run_epsim(dir, job + "-o plain").exit_code == 0);
  const Outcome done = run_epsim(dir, job + "-o traced --timeline 20:2");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  CHECK(done.out.find("timeline: traced/timeline.json") != std::string::npos);
  CHECK(slurp(dir / "traced/summary.json") == slurp(dir / "plain/summary.json"));
  CHECK(slurp(dir / "traced/requests.csv") == slurp(dir / "plain/requests.csv"));
  const auto trace = nlohmann::json::parse(slurp(dir / "traced/timeline.json"));
  epsim::test::check_timeline(trace);
  std::set<std::string> steps, processes, parts;
  double length = 0, flows = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "step") {
      steps.insert(event["name"]);
      length += event["dur"].get<double>();
    } else if (event["ph"] == "X") {
      parts.insert(event["cat"]);
    }
    if (event["name"] == "process_name") {
      processes.insert(event["args"]["name"]);
    }
    flows += event["ph"] == "s" ? 1 : 0;
  }
  CHECK(steps == std::set<std::string>{"step 20", "step 21", "step 22"});
  CHECK(processes == std::set<std::string>{"DP rank 0", "DP rank 1", "steps"});  // two nodes with TP 8
  CHECK(parts.contains("attention"));
  CHECK(parts.contains("experts"));
  CHECK(length > 0);
  CHECK(flows > 0);
}

// 40 requests of 712 tokens: at most 28480 steps, and as they run in batches far fewer.
TEST_CASE("timeline: steps that no run has are refused before it, others told about behind it") {
  const TempDir dir;
  const Outcome never = run_epsim(dir, "run " + small_scenario() + " -q -o never --timeline 28480");
  CHECK(never.exit_code == 2);
  CHECK(never.err.find("`timeline`: there is no step 28480") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "never"));
  const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q -o out --timeline 28479");
  CHECK(done.exit_code == 2);
  CHECK(done.err.find("`timeline`: the run has") != std::string::npos);
  CHECK(std::filesystem::exists(dir / "out/summary.json"));
  CHECK_FALSE(std::filesystem::exists(dir / "out/timeline.json"));
}

TEST_CASE("timeline: what is not a step is refused before anything runs") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q -o out --timeline twenty");
  CHECK(done.exit_code == 2);
  CHECK(done.err.find("'twenty' is neither a step") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(dir / "out"));
}

TEST_CASE("timeline: the slowest decode step is the longest of steps.csv") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q -o out --steps --timeline slowest-decode");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  std::istringstream rows(slurp(dir / "out/steps.csv"));
  std::string row, slowest;
  double longest_us = 0;
  int steps = 0;
  std::getline(rows, row);
  const auto total = std::count(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(row.find("total_us")), ',');
  for (; std::getline(rows, row); ++steps) {
    std::vector<std::string> cells;
    std::istringstream line(row);
    for (std::string cell; std::getline(line, cell, ',');) {
      cells.push_back(cell);
    }
    if (cells[3] == "decode" && std::stod(cells[static_cast<std::size_t>(total)]) > longest_us) {
      longest_us = std::stod(cells[static_cast<std::size_t>(total)]);
      slowest = cells[1];
    }
  }
  CHECK(steps == nlohmann::json::parse(slurp(dir / "out/summary.json"))["step"]["steps"]);
  CHECK(done.out.find("step " + slowest + " of instance 0 takes") != std::string::npos);
  const auto trace = nlohmann::json::parse(slurp(dir / "out/timeline.json"));
  epsim::test::check_timeline(trace);
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "step") {
      CHECK(event["name"] == "step " + slowest);
      CHECK(event["dur"].get<double>() == doctest::Approx(longest_us));
    }
  }
}

TEST_CASE("timeline: of prefill and decode instances, the slowest decode step is a decode instance's") {
  const TempDir dir;
  const Outcome done = run_epsim(dir, "run " + small_scenario() +
                                          " -q -o out --steps --timeline slowest-decode "
                                          "--set 'deployment={prefill: {instances: 1}, decode: {instances: 1}}'");
  REQUIRE_MESSAGE(done.exit_code == 0, done.err);
  const auto trace = nlohmann::json::parse(slurp(dir / "out/timeline.json"));
  epsim::test::check_timeline(trace);
  CHECK(trace["otherData"]["instance"] == 1);
  std::set<std::string> processes;
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") {
      processes.insert(event["args"]["name"]);
    }
  }
  CHECK(processes == std::set<std::string>{"DP rank 0", "DP rank 1", "steps"});  // of two nodes, not of all four
}
