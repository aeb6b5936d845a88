#include "sim/report/writer.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/report/csv.h"
#include "tests/report/sample_run.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;

RunInfo run_info() { return {"0.1.0", "quickstart", 7, "seed: 7\n", {}}; }

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    out.insert(entry.path().filename().string());
  }
  return out;
}

}  // namespace

TEST_CASE("a run's folder holds its files and nothing else") {
  const test::TempDir dir;
  write_run(dir.path(), test::sample_run(), summarize(test::sample_run()), run_info());
  CHECK(names_in(dir.path()) == std::set<std::string>{"resolved.yaml", "summary.json", "requests.csv", "layers.csv",
                                                      "links.csv", "gpus.csv", "memory.csv", "layer_gpu.csv",
                                                      "layer_steps.csv", "step_kinds.csv", "series.csv"});
  CHECK(read_file(dir / "resolved.yaml") == "seed: 7\n");
  CHECK(nlohmann::json::parse(read_file(dir / "summary.json"))["seed"] == 7);
  std::ostringstream requests;
  write_requests_csv(requests, test::sample_run());
  CHECK(read_file(dir / "requests.csv") == requests.str());
}

TEST_CASE("equal runs give equal bytes") {
  const test::TempDir first, second;
  write_run(first.path(), test::sample_run(), summarize(test::sample_run()), run_info());
  write_run(second.path(), test::sample_run(), summarize(test::sample_run()), run_info());
  for (const std::string& name : names_in(first.path())) {
    CAPTURE(name);
    CHECK(read_file(first / name) == read_file(second / name));
  }
}

TEST_CASE("an interrupted run without any step is written too") {
  const test::TempDir dir;
  write_run(dir.path(), test::empty_run(), summarize(test::empty_run()), run_info());
  CHECK(nlohmann::json::parse(read_file(dir / "summary.json"))["interrupted"] == true);
}

TEST_CASE("a comparison is written as JSON and CSV") {
  const test::TempDir dir;
  const std::vector runs{summarize(test::sample_run("base")), summarize(test::sample_run("eplb"))};
  write_comparison(dir.path(), one_seed(runs), run_info());
  CHECK(names_in(dir.path()) == std::set<std::string>{"comparison.json", "comparison.csv"});
  CHECK(read_file(dir / "comparison.csv").rfind("rank,policy,seed,", 0) == 0);
  write_comparison(dir.path(), {{7, 8}, {{runs[0], runs[0]}, {runs[1], runs[1]}}}, run_info());
  CHECK(names_in(dir.path()) == std::set<std::string>{"comparison.json", "comparison.csv", "intervals.csv"});
}

TEST_CASE("a comparison's folder has a folder per run, each of which can be run again") {
  const test::TempDir dir;
  const std::vector runs{test::sample_run("base"), test::sample_run("eplb")};
  write_comparison_folder(dir.path(), runs, one_seed(std::vector{summarize(runs[0]), summarize(runs[1])}), run_info());
  CHECK(names_in(dir.path()) ==
        std::set<std::string>{"base", "eplb", "comparison.json", "comparison.csv", "resolved.yaml"});
  CHECK(read_file(dir / "resolved.yaml") == "seed: 7\n");
  CHECK(read_file(dir / "eplb/resolved.yaml") == "seed: 7\npolicy: eplb\n");
  CHECK(names_in(dir / "eplb").size() == 11);  // those of a run
}

TEST_CASE("a folder that cannot be written is named in the error") {
  const test::TempDir dir;
  CHECK_THROWS_AS(write_run(dir / "absent", test::sample_run(), summarize(test::sample_run()), run_info()), RunFailed);
  fs::create_directory(dir / "requests.csv");  // takes the file's name
  CHECK_THROWS_WITH_AS(write_run(dir.path(), test::sample_run(), summarize(test::sample_run()), run_info()),
                       doctest::Contains("requests.csv: cannot be written"), RunFailed);
}

}  // namespace epsim
