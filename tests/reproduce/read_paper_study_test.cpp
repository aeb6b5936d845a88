// A file of claims: what it may leave out, and what is refused with line and key.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/core/error.h"
#include "sim/reproduce/paper_study.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

const std::string kHead =
    "name: mine\nstudy: Mine (2026)\nsetups:\n  s1: {scenario: s.yaml}\n  s2: {scenario: s.yaml}\n";
const std::string kClaim = "claims:\n  - id: A1\n    claim: b beats a\n    where: Tab. 1\n";
const std::string kFigure = kClaim + "    figures:\n      - ";
const std::string kGood = "{what: w, setups: [s1], value: run.requests_per_s(b) / run.requests_per_s(a), paper: 1.2x, ";

PaperStudy study_from(const std::string& text) {
  const test::TempDir dir;
  std::ofstream(dir / "mine.yaml") << text;
  return read_paper_study(dir / "mine.yaml");
}

std::string refusal(const std::string& text) {
  try {
    study_from(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("a small study: a claim with one figure, all else by default") {
  const PaperStudy read = study_from(kHead + kFigure + kGood + "within: [1.1, 1.3], no_effect: 1}\n");
  CHECK(read.name == "mine");
  CHECK(read.seeds == 2);
  REQUIRE(read.claims.size() == 1);
  const ClaimFigure& figure = read.claims[0].figures.at(0);
  CHECK(figure.kind == ClaimKind::kCalibrated);
  CHECK(figure.over == Over::kMean);
  CHECK(figure.low == 1.1);
  CHECK(figure.high == 1.3);
  CHECK(figure.no_effect == 1.0);
  CHECK(figure.stated == 1.2);  // the number that the paper's value begins with
  CHECK(read.setups[1].scenario.filename() == "s.yaml");
}

TEST_CASE("what figures share stands in the claim, and a figure's own comes first") {
  const PaperStudy read =
      study_from(kHead + "groups: {both: [s1, s2]}\nmetrics: {rate: run.requests_per_s}\n" + kClaim +
                 "    setups: [both]\n    value: rate(b) / rate(a)\n    unit: x\n    figures:\n"
                 "      - {what: mean, paper: '2', at_least: 1}\n"
                 "      - {what: largest, over: largest, setups: [s2], unit: y, paper: '3', exactly: 58 / 8}\n");
  const std::vector<ClaimFigure>& figures = read.claims[0].figures;
  CHECK(figures[0].setups.size() == 2);
  CHECK(figures[0].unit == "x");
  CHECK(figures[0].low == 1);
  CHECK(figures[0].high == kUnbounded);
  CHECK(figures[1].setups.size() == 1);
  CHECK(figures[1].unit == "y");
  CHECK(figures[1].over == Over::kLargest);
  CHECK(figures[1].exact);
  CHECK(figures[1].high == 7.25);
}

TEST_CASE("a file of claims that is wrong is refused with line and key") {
  struct Wrong {
    std::string text;
    std::vector<const char*> mentions;
  };
  const std::string open = kHead + kFigure;
  for (const Wrong& wrong : {
           Wrong{kHead, {"claims", "at least one"}},
           Wrong{kHead + kClaim, {"held_by", "open"}},
           Wrong{kHead + kClaim + "    open: why\n    held_by: x\n", {"figures"}},
           Wrong{open + kGood + "within: [2, 1]}\n", {":11", "within", "[low, high]"}},
           Wrong{open + kGood + "at_least: 1, exactly: 2}\n", {"one tolerance"}},
           Wrong{open + kGood + "}\n", {"one tolerance"}},
           Wrong{open + kGood + "at_least: 1, over: most}\n", {"over", "largest"}},
           Wrong{open + kGood + "at_least: 1, kind: exat}\n", {"kind", "exact"}},
           Wrong{open + kGood + "at_least: 1, tolerance: 3}\n", {"tolerance"}},
           Wrong{open + "{what: w, setups: [s3], value: run.requests_per_s(a), paper: x, at_least: 1}\n", {"s3", "s1"}},
           Wrong{open + "{what: w, value: run.requests_per_s(a), paper: x, at_least: 1}\n", {"setups", "others"}},
           Wrong{open + "{what: w, setups: [s1], paper: x, at_least: 1}\n", {"value", "missing"}},
           Wrong{open + "{what: w, setups: [s1], value: ran.requests_per_s(a), paper: x, at_least: 1}\n",
                 {"ran", "run"}},
           Wrong{open + "{what: w, setups: [s1], value: run.request_per_s(a), paper: x, at_least: 1}\n",
                 {"request_per_s", "requests_per_s"}},
           Wrong{open + "{what: w, setups: [s1], value: 'run.steps(a, other)', paper: x, at_least: 1}\n", {"others"}},
           Wrong{open + "{what: w, setups: [s1], value: below_knee.steps(a), paper: x, at_least: 1}\n",
                 {"below_knee.policies", "s1"}},
           Wrong{open + "{what: w, setups: [s1], value: run.steps(a), paper: less, no_effect: 1, at_least: 1}\n",
                 {"stated", "as a number"}},
           Wrong{open + "{what: w, setups: [s1], value: 58 / 8, paper: x, at_least: 1}\n",
                 {":11", "value", "no metric"}},
           Wrong{open + "{what: w, setups: [s1, s1], value: run.steps(a), paper: x, at_least: 1}\n",
                 {":11", "setups", "s1 is there twice"}},
           Wrong{open + kGood + "at_least: 1, beside: {x: 'run.steps(a, other)'}}\n", {":11", "beside", "others"}},
           Wrong{open + kGood + "at_least: 1, beside: {x: below_knee.steps(a)}}\n",
                 {":11", "beside", "below_knee.policies", "s1"}},
           Wrong{kHead + "below_knee: {policies: {s1: []}}\n" + kClaim + "    open: z\n", {"s1", "whose knees count"}},
           Wrong{kHead + kClaim +
                     "    best: {of: below_knee.steps, policies: [a]}\n    figures:\n      - {what: w, setups: [s1], "
                     "value: run.steps(best), paper: x, at_least: 1}\n",
                 {"value", "below_knee.policies", "s1"}},
           Wrong{kHead + kClaim + "    best: {of: 1 + run.steps, policies: [a]}\n    open: z\n", {"of", "one metric"}},
           Wrong{"name: x\nstudy: y\nsetups: {searches: {scenario: s.yaml}}\n" + kClaim + "    open: z\n",
                 {"searches", "folder"}},
       }) {
    const std::string told = refusal(wrong.text);
    CAPTURE(told);
    CHECK(told.find("mine.yaml") != std::string::npos);
    for (const char* word : wrong.mentions) {
      CHECK_MESSAGE(told.find(word) != std::string::npos, word);
    }
  }
}

}  // namespace
}  // namespace epsim
