#include "sim/report/diagnosis_report.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "tests/support/errors.h"

namespace epsim {

using test::check_contains;

namespace {

// Requests/s of three seeds around a mean, 0.1 % apart: an interval of t(2) x 0.001 / sqrt(3) = 4.303 x 0.000577, 0.25 %.
Diagnosis diagnosed(double placement, double copies) {
  Diagnosis out;
  out.windows = 2;
  out.scored_later = true;
  out.kept = {1, 0.95};
  out.copies_per_layer = 16;
  out.step_s = 0.1;
  for (const double off : {-0.001, 0.0, 0.001}) {
    out.in_order.push_back(10);
    out.placement.push_back(10 * (1 + placement + off));
    out.copies.push_back(10 * (1 + copies + off));
    out.perfect.push_back(12);
  }
  return out;
}

constexpr double kWorth = 0.025;

// The lines as one, however they were broken.
std::string lines_of(const Diagnosis& d) {
  std::istringstream words(diagnosis_lines(d, verdict_of(d, kWorth)));
  std::string out;
  for (std::string word; words >> word;) {
    out += word + " ";
  }
  return out;
}

}  // namespace

TEST_CASE("a gain whose interval lies above what is worth it is a yes, one below a no, one across is neither") {
  CHECK(verdict_of(diagnosed(0.05, 0.05), kWorth).answer == BalanceAnswer::kOn);        // 4.75 to 5.25 %
  CHECK(verdict_of(diagnosed(0.02, 0.02), kWorth).answer == BalanceAnswer::kOff);       // 1.75 to 2.25 %
  CHECK(verdict_of(diagnosed(0.026, 0.026), kWorth).answer == BalanceAnswer::kUnsure);  // 2.35 to 2.85 %
}

TEST_CASE("copies are advised only where they add to placement for certain") {
  CHECK_FALSE(verdict_of(diagnosed(0.10, 0.10), kWorth).with_copies);
  CHECK(verdict_of(diagnosed(0.10, 0.12), kWorth).with_copies);
  CHECK_FALSE(verdict_of(diagnosed(0.10, 0.08), kWorth).with_copies);
}

TEST_CASE("what rebalancing takes of the time comes off the gain") {
  Diagnosis d = diagnosed(0.05, 0.05);
  d.step_s = 0.0970;
  d.move_placement.pause = d.move_copies.pause = Seconds(3);  // of 97 + 3 s
  const BalanceVerdict v = verdict_of(d, kWorth);
  CHECK(v.net.mean == doctest::Approx(1.05 * 0.97 - 1));  // 1.85 %: below 2.5
  CHECK(v.answer == BalanceAnswer::kOff);
}

TEST_CASE("a plan that is scored on its own counts is no evidence for it, but may be against it") {
  Diagnosis good = diagnosed(0.05, 0.05), bad = diagnosed(0.01, 0.01);
  good.scored_later = bad.scored_later = false;
  good.windows = bad.windows = 1;
  good.kept = bad.kept = {1};
  const BalanceVerdict unsure = verdict_of(good, kWorth);
  CHECK(unsure.answer == BalanceAnswer::kUnsure);
  check_contains(unsure.text, {"UNSURE: EPLB with ", "give a later recording"});
  CHECK(verdict_of(bad, kWorth).answer == BalanceAnswer::kOff);
  check_contains(lines_of(good), {"unknown from one window"});
}

TEST_CASE("windows too short to tell are no evidence against a plan, unless even perfect balance is not worth it") {
  Diagnosis d = diagnosed(0.02, 0.02);
  d.windows = 2;
  d.repeats = 0.11;
  const BalanceVerdict unsure = verdict_of(d, kWorth);
  CHECK(unsure.answer == BalanceAnswer::kUnsure);
  check_contains(unsure.text, {"windows too short to tell; record longer ones"});
  d.perfect = {10.2, 10.2, 10.2};  // 2 % more than in order
  CHECK(verdict_of(d, kWorth).answer == BalanceAnswer::kOff);
}

TEST_CASE("one seed has no interval and answers nothing") {
  Diagnosis d = diagnosed(0.5, 0.5);
  for (std::vector<double>* rates : {&d.in_order, &d.placement, &d.copies, &d.perfect}) {
    rates->resize(1);
  }
  const BalanceVerdict unsure = verdict_of(d, kWorth);
  CHECK(unsure.answer == BalanceAnswer::kUnsure);
  check_contains(unsure.text, {"(one seed) after what rebalancing costs, which"});
  CHECK_FALSE(unsure.with_copies);
  d.copies = {1.1 * d.placement[0]};  // what it names is what brings more
  CHECK(verdict_of(d, kWorth).with_copies);
}

TEST_CASE("how long a plan lasts is told by the first window on which it keeps less than 90 %") {
  Diagnosis d = diagnosed(0.05, 0.05);
  d.windows = 4;
  d.kept = {1, 0.96, 0.85, 0.7};
  check_contains(lines_of(d), {"it lasts for 1 of 4 windows"});
  d.kept = {1, 0.8, 0.85, 0.7};
  check_contains(lines_of(d), {"plan again more often than once a window"});
  d.repeats = 0.11;  // the same with 89 % of the gain a window's own noise
  d.window_tokens = 40;
  const std::string noisy = lines_of(d);
  check_contains(noisy, {"windows of 40 tokens are too short to tell", "keeps 11 %", "record longer windows"});
  CHECK(noisy.find("plan again") == std::string::npos);
}

}  // namespace epsim
