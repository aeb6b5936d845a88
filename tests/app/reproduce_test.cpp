// `epsim reproduce` through the program itself: what it leaves, what a kill costs, and what it refuses.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/resume_support.h"

namespace fs = std::filesystem;
using epsim::test::contents;
using epsim::test::finished_parts;
using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::signal_after;
using epsim::test::slurp;
using epsim::test::TempDir;

namespace {

const std::string kCraft = (epsim::test::source_dir() / "experiments/craft/claims.yaml").string();

// Two policies on the setup with 6 nodes; few batches, short answers and cheap exchanges make it a matter of seconds.
const std::string kStudyJob = "reproduce " + kCraft +
                              " -q --quick --only C17 --set plan_loads.steps=10 --set requests.output_tokens=8 "
                              "--set network.model=two_tier --set loads.hold_steps=16 ";

// All but the report, which is named after the folder.
std::map<std::string, std::string> results(const fs::path& folder) {
  std::map<std::string, std::string> out = contents(folder);
  out.erase("report.html");
  return out;
}

}  // namespace

TEST_CASE("reproduce: killed at any moment, it goes on to the same bytes and searches nothing twice") {
  const TempDir dir;
  const Outcome whole = run_epsim(dir, kStudyJob + "--threads 2 -o whole");
  REQUIRE_MESSAGE(whole.exit_code <= 1, whole.err);  // 1: a claim may be missed
  CHECK(whole.out.find("C17") != std::string::npos);
  CHECK(whole.out.find("whole/report.html") != std::string::npos);
  CHECK(slurp(dir / "whole/report.html").starts_with("<!DOCTYPE html>"));
  CHECK(finished_parts(dir / "whole/searches") == 2);
  for (const std::size_t searches : {0, 1}) {
    CAPTURE(searches);
    const fs::path folder = dir / ("killed" + std::to_string(searches));
    signal_after(SIGKILL, dir, kStudyJob + "--threads 1 -o " + folder.filename().string(), folder / "searches",
                 searches);
    const Outcome resumed = run_epsim(dir, kStudyJob + "--threads 1 -o " + folder.filename().string());
    CHECK_MESSAGE(resumed.exit_code == whole.exit_code, resumed.err);
    CHECK(results(folder) == results(dir / "whole"));
  }
  const Outcome other = run_epsim(dir, kStudyJob + "--set seed=9 -o whole");
  CHECK(other.exit_code == 2);
  CHECK(other.err.find("a reproduction with other inputs") != std::string::npos);
  // A damaged search is made again, and other claims may use the same searches.
  std::string pack = slurp(dir / "whole/searches.pack");
  pack[pack.find('{', pack.find(" ke6-base-goodput\n"))] = '?';
  std::ofstream(dir / "whole/searches.pack") << pack;
  const auto before = results(dir / "killed1");
  CHECK(run_epsim(dir, kStudyJob + "-o whole").exit_code == whole.exit_code);
  CHECK(results(dir / "whole") == before);
}

TEST_CASE("reproduce: a file that an override names is part of the inputs") {
  const TempDir dir;
  const std::string job = "reproduce " + kCraft +
                          " -q --only C05 --set plan_loads.steps=10 --set 'requests={kind: csv, path: r.csv, "
                          "arrival_column: t, input_column: i, output_column: o}' -o out";
  std::ofstream(dir / "r.csv") << "t,i,o\n0,500,5\n0.5,600,6\n";
  REQUIRE(run_epsim(dir, job).exit_code == 0);
  CHECK(run_epsim(dir, job).exit_code == 0);
  std::ofstream(dir / "r.csv", std::ios::app) << "1,700,7\n";
  const Outcome changed = run_epsim(dir, job);
  CHECK(changed.exit_code == 2);
  CHECK_MESSAGE(changed.err.find("content_hash was") != std::string::npos, changed.err);
}

TEST_CASE("reproduce: claims.json counts what it lists") {
  const TempDir dir;
  REQUIRE(run_epsim(dir, "reproduce " + kCraft + " -q --only C05,C16,C21 --set plan_loads.steps=10 -o out").exit_code ==
          0);
  const auto document = nlohmann::json::parse(slurp(dir / "out/claims.json"));
  CHECK(document.at("all_hold") == true);
  CHECK(document.at("claims_reproduced") == document.at("claims").size());
  CHECK(document.at("claims").size() == 4);
  CHECK(document.at("claims_elsewhere").at(0).at("claim") == "C21");
  CHECK(finished_parts(dir / "out/searches") == 0);  // plans alone
  // Fewer claims do not take the place of more; more do.
  const Outcome fewer = run_epsim(dir, "reproduce " + kCraft + " -q --only C05 --set plan_loads.steps=10 -o out");
  CHECK(fewer.exit_code == 2);
  CHECK_MESSAGE(fewer.err.find("C16 too") != std::string::npos, fewer.err);
  CHECK(nlohmann::json::parse(slurp(dir / "out/claims.json")) == document);
  CHECK(
      run_epsim(dir, "reproduce " + kCraft + " -q --only C05,C06,C16,C21 --set plan_loads.steps=10 -o out").exit_code ==
      0);
  std::ofstream(dir / "out/claims.json") << R"({"claims": [3, {"claim": 4}]})";  // nobody's result
  CHECK(run_epsim(dir, "reproduce " + kCraft + " -q --only C05 --set plan_loads.steps=10 -o out").exit_code == 0);
}

TEST_CASE("reproduce refuses wrong input with a clear error and writes nothing") {
  struct Wrong {
    const char* arguments;
    std::vector<const char*> mentions;
  };
  const TempDir dir;
  fs::create_directory(dir / "taken");
  std::ofstream(dir / "taken/thesis.txt") << "mine";
  fs::create_directory_symlink(epsim::test::source_dir() / "experiments", dir / "experiments");  // as in a checkout
  std::ofstream(dir / "mine.yaml") << "name: mine\nstudy: An example\nseeds: 1\n"
                                      "setups: {p4de: {scenario: experiments/quickstart/deepseek-r1-p4de.yaml}}\n"
                                      "claims: [{id: X2, claim: a copy a GPU, where: counting, kind: exact, figures: "
                                      "[{what: copies, setups: [p4de], value: plan.copies_per_gpu(eplb), paper: '58', "
                                      "exactly: 58}]}]\n";
  for (const Wrong& wrong :
       {Wrong{"", {"name the paper", "as in"}}, Wrong{"kraft", {"kraft", "craft", "libra"}},
        Wrong{"craft more", {"too many arguments"}}, Wrong{"craft --only C99", {"C99", "C09"}},
        Wrong{"craft --only ,", {"only", "no claim"}}, Wrong{"none.yaml", {"none.yaml"}},
        Wrong{"craft --only C21", {"only", "nothing is run"}},
        Wrong{"craft --quick --only C19", {"--quick leaves out"}}, Wrong{"mine.yaml --quick", {"mine names no setups"}},
        Wrong{"mine.yaml --sensitivity", {"mine changes no input"}}, Wrong{"craft --seeds 0", {"seeds", "1 to 100"}},
        Wrong{"craft --seeds two", {"seeds", "two"}}, Wrong{"craft --threads -1", {"threads", "0 (all cores)"}},
        Wrong{"craft --quikc", {"quikc", "quick"}},
        Wrong{"craft --only C17 --set requests.rat=1/s", {"requests.rat", "rate"}},
        Wrong{"craft --only C17 --set cluster.nodes=7", {"cluster.nodes", "divide"}},
        Wrong{"craft --only C17 --set seed", {"key=value"}}, Wrong{"craft --only C05 -o taken", {"taken", "exists"}},
        Wrong{"craft --only C05 -o taken --overwrite", {"taken", "reproduce.json"}}}) {
    CAPTURE(wrong.arguments);
    const std::string target = std::string(wrong.arguments).find("-o taken") == std::string::npos ? " -o out" : "";
    const Outcome refused = run_epsim(dir, std::string("reproduce ") + wrong.arguments + target);
    CHECK(refused.exit_code == 2);
    for (const char* word : wrong.mentions) {
      CHECK_MESSAGE(refused.err.find(word) != std::string::npos, refused.err, " does not say ", word);
    }
    CHECK_FALSE(fs::exists(dir / "out"));
  }
  CHECK(slurp(dir / "taken/thesis.txt") == "mine");
}
