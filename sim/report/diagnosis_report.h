// What a diagnosis comes to: whether to balance experts, and its five lines.
#pragma once

#include <string>
#include <vector>

#include "sim/report/estimate.h"
#include "sim/study/diagnosis_result.h"

namespace epsim {

enum class BalanceAnswer { kOn, kOff, kUnsure };
std::string_view name_of(BalanceAnswer answer);  // "ON"

// Gains are shares of the rate of experts in order, taken seed by seed.
struct BalanceVerdict {
  BalanceAnswer answer = BalanceAnswer::kUnsure;
  bool with_copies = false;                    // they add to placement for certain, after what moving costs
  Estimate placement, copies, added, perfect;  // `added`: copies over placement alone
  Estimate net;      // of what is advised, after a rebalance every kStepsBetweenRebalances steps
  std::string text;  // the answer's line
};

// `worth`: the gain below which nothing is worth turning on, as a share.
BalanceVerdict verdict_of(const Diagnosis& diagnosis, double worth);

// A line for each of skew, stability, gain, cost and answer, broken at the width of a terminal.
std::string diagnosis_lines(const Diagnosis& diagnosis, const BalanceVerdict& verdict);
std::string diagnosis_json(const Diagnosis& diagnosis, const BalanceVerdict& verdict);

}  // namespace epsim
