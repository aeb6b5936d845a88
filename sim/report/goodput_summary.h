// A goodput study in figures: means over seeds with their 95 % intervals, and every policy against the first, seed by
// seed. metrics.md defines each figure under the name that the files give it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/report/estimate.h"
#include "sim/report/format.h"
#include "sim/report/gain_split.h"
#include "sim/report/rate_verdict.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// The knee at one k.
struct KneeFigures {
  double k = 0;
  Estimate rate;          // requests/s
  Estimate ratio;         // to the first policy's, seed by seed
  Estimate ttft_ms;       // mean TTFT there
  bool searched = false;  // the k of the search; the others lie between its probes
  bool steady = true;     // in every seed
  bool reached = true;    // in every seed: false when the knee may lie above the highest rate probed
};

// The highest rate at which the SLO holds, and the latencies of the highest such rate probed.
struct SloFigures {
  std::string limit;    // what most seeds' searches were limited by
  int held_seeds = 0;   // seeds under which it holds at some rate
  Estimate attainment;  // share; undefined without per-request bounds
  Estimate ttft_mean_ms, ttft_p99_ms, tpot_mean_ms, tpot_p99_ms;
};

struct PolicyGoodput {
  std::string policy;
  Estimate rate;                   // requests/s: at the SLO where there is one, or else at the searched knee
  Estimate ratio;                  // to the first policy's, seed by seed
  SloFigures slo;                  // with an SLO; the following four without
  std::vector<KneeFigures> knees;  // by k, the searched one among them
  Estimate saturation, saturation_ratio;
  Estimate idle_ttft_ms;
  Estimate tpot_ms;
  Estimate concurrency;  // at the highest acceptable rate probed, as the TPOT
  double kv_lost_share = 0;
  std::int64_t kv_tokens_per_rank = 0;

  const KneeFigures& searched() const;
};

std::vector<PolicyGoodput> summarize(const GoodputStudy& study);

// The searches of one policy, by seed; likewise those with prompts held together, where the study has them.
std::span<const GoodputSearch> searches_of(const GoodputStudy& study, std::size_t policy);
std::span<const GoodputSearch> aligned_of(const GoodputStudy& study, std::size_t policy);
// Every search with whether its prompts are aligned: those of the policies, then the aligned ones.
std::vector<std::pair<const GoodputSearch*, bool>> all_searches(const GoodputStudy& study);
// Its rate, requests/s: at the SLO where there is one, or else at the searched knee.
double rate_of(const GoodputStudy& study, const GoodputSearch& search);

// All values of k that the study reports, ascending, each once; the searched one among them.
std::vector<double> values_of_k(const GoodputOptions& options);
const Knee& knee_at(const GoodputSearch& search, const GoodputOptions& options, double k);

// Whose each policy's gain is, at these rates.
std::vector<GainSplit> gain_splits(const GoodputStudy& study);

// Which policy to choose, against the first one.
RateVerdict goodput_verdict(const GoodputStudy& study);

// What the study comes to, a paragraph per policy after the first, and what readers must know about it. A verdict
// (better or worse than the first, by more than the interval) that changes sides as k
// changes is told as such.
std::vector<std::string> goodput_conclusions(const GoodputStudy& study);

// Of these the paragraphs on branches: which knees and rates depend on the start, what alignment brings; without branches,
// where they would tell more.
std::vector<std::string> branch_conclusions(const GoodputStudy& study);

// The definitions behind the figures, with the values of the options in them.
std::string knee_rule(const GoodputOptions& options);
std::string slo_rule(const GoodputOptions& options);
std::string measured_part_rule(const GoodputOptions& options);

// What a study costs where a rate under an SLO takes many requests because fewer do not settle it; empty otherwise.
std::string cost_note(const LoadPoint& probe, const std::string& policy, std::size_t searches,
                      const GoodputOptions& options);

// "eplb, seed 1, at 4/s: 640 of 2000 requests".
std::string served_text(const ServedSoFar& run);

std::string_view name_of(KneeLimit limit);

}  // namespace epsim
