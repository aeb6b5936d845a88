// The shipped files of claims.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "sim/core/files.h"
#include "sim/reproduce/evaluate.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

std::vector<PaperStudy> papers() {
  std::vector<PaperStudy> out;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "experiments")) {
    if (std::filesystem::exists(entry.path() / "claims.yaml")) {
      out.push_back(read_paper_study(entry.path() / "claims.yaml"));
      CHECK(out.back().name == entry.path().filename().string());  // as `epsim reproduce NAME` finds it
    }
  }
  return out;
}

TEST_CASE("what holds a claim elsewhere is there, and says so") {
  REQUIRE(!papers().empty());
  for (const PaperStudy& paper : papers()) {
    for (const PaperClaim& claim : paper.claims) {
      CAPTURE(paper.name);
      CAPTURE(claim.id);
      if (!claim.held_by.empty()) {
        const std::string text = read_file(test::source_dir() / claim.held_by);
        CHECK(text.find(claim.id) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a quick reproduction runs the setups that it names, and leaves out what takes long") {
  for (const PaperStudy& paper : papers()) {
    CAPTURE(paper.name);
    const PaperNeeds needs = needs_of(paper, paper.claims, {paper.quick_setups});
    std::set<std::string> run;
    for (const auto& [setup, unused] : needs) {
      run.insert(setup);
    }
    CHECK(run == std::set<std::string>(paper.quick_setups.begin(), paper.quick_setups.end()));
  }
}

TEST_CASE("GRACE-MoE's cuts of latency and its factors are one identity (G03, G04)") {
  struct Stated {
    double cut_percent, times_as_fast;
  };
  // Sec. 5.2, and Sec. 5.3 for the three models on 2 x 2: 1 / (1 - cut), to the digits that the paper gives.
  for (const Stated& stated : {Stated{73.6, 3.79}, Stated{66.5, 2.98}, Stated{54.7, 2.21}, Stated{64.5, 2.81}}) {
    CAPTURE(stated.cut_percent);
    CHECK(std::abs(1 / (1 - stated.cut_percent / 100) - stated.times_as_fast) < 0.01);
  }
}

TEST_CASE("every setup of a paper is asked for") {
  for (const PaperStudy& paper : papers()) {
    const PaperNeeds needs = needs_of(paper, paper.claims, {});
    for (const PaperSetup& setup : paper.setups) {
      CAPTURE(setup.name);
      CHECK(needs.contains(setup.name));
    }
  }
}

TEST_CASE("every change of an input says why it is not known better, and can be read") {
  for (const PaperStudy& paper : papers()) {
    for (const InputChange& change : paper.changes) {
      CAPTURE(change.input);
      CHECK_FALSE(change.because.empty());
      CHECK((!change.set.empty() || !change.set_of.empty() || change.k));
      GatherOptions options;
      options.overrides = change.set;
      options.more_of = change.set_of;
      const std::string& setup = paper.sensitivity_setups.front();
      CHECK(scenario_of(paper, setup, options, {}, {"requests.count=10"}, true).requests.requests.size() == 10);
    }
  }
}

}  // namespace
}  // namespace epsim
