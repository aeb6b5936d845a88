// What a goodput study with branches tells: rates from both starts, and what holding prompts together brings.
#pragma once

#include <string>
#include <vector>

#include "sim/report/estimate.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// A rate of a policy from both starts: means over the seeds that have it.
struct StartFigures {
  bool at_knee = false;  // the highest acceptable rate; the others lie between the knee and the saturation throughput
  Estimate rate;         // requests/s
  Estimate empty_completed, empty_ttft_ms;
  Estimate backlog_completed, backlog_ttft_ms;
  bool empty_steady = true, backlog_steady = true;  // in every seed
  int seeds = 0, told_seeds = 0, apart_seeds = 0;   // BranchPoint::start_matters() tells, and says so
};

// By rate; empty without branches.
std::vector<StartFigures> start_figures(const GoodputStudy& study, std::size_t policy);

// A policy with prompts held together.
struct AlignedFigures {
  Estimate rate;   // requests/s: as PolicyGoodput::rate
  Estimate gain;   // to the policy's own rate without, seed by seed
  Estimate ratio;  // to the first policy's aligned rate
};

// Only where the study has aligned searches.
AlignedFigures aligned_figures(const GoodputStudy& study, std::size_t policy);

// For a terminal; empty without branches.
std::string branch_tables(const GoodputStudy& study);

}  // namespace epsim
