// Which of several choices serves the highest rate, by how much, how sure that is and at what cost: one sentence, for
// the policies of a goodput study and for the combinations of a sweep.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "sim/report/estimate.h"

namespace epsim {

// A policy's name in plain words ("load balancing off" for contiguous); its label where it has none.
std::string plain_name(const std::string& policy);

struct RateChoice {
  std::string name;
  std::vector<double> by_seed{};  // requests/s; 0: none is served under that seed; undefined: the search failed
  double kv_lost_share = 0;       // to copies and buffers
  std::string limit{};            // the term of the SLO that fails first
};

struct RateQuestion {
  std::string condition;     // that holds at the rates: "within the SLO"
  double tolerance = 0;      // relative width of a search's last bracket
  std::string more_seeds{};  // the option that gives more than one seed
};

struct RateVerdict {
  std::size_t chosen = 0;   // index into the choices
  bool difference = false;  // it is told apart from what it is held against
  std::string text;         // one sentence; empty where there is nothing to tell
};

// What rates of a single seed must differ by, in tolerances: a search is content with one known to within as many
// (sim/study/slo_curve.cpp), and nothing is known of what chance moves.
inline constexpr double kOneSeed = 2;

// Where a ratio lies against 1: +1 above, -1 below, 0 not told apart, by its interval; with a single seed, by `one_seed`.
int side_of_one(const Estimate& ratio, double one_seed);

// Of their rates seed by seed; the searches' brackets widen its interval.
Estimate ratio_of(const RateChoice& choice, const RateChoice& other, const RateQuestion& question);

// Ratios are taken seed by seed. A choice is better than another when the interval of their ratio, which has the seeds and
// the searches' brackets in it, does not hold 1 (with a single seed: when they differ by more than kOneSeed tolerances).

// Against the first choice, which is what there is without doing anything: of those better than it the fastest is
// chosen, or of those not told apart from that the one that takes least KV room, and of equal room the one given first.
RateVerdict verdict_against_first(std::span<const RateChoice> choices, const RateQuestion& question);

// The fastest of those that sustain a rate under every seed, against the next. Choices that failed do not take part.
RateVerdict verdict_against_next(std::span<const RateChoice> choices, const RateQuestion& question);

}  // namespace epsim
