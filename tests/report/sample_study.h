// A goodput study small enough that every figure of its report is worked out by hand.
#pragma once

#include <string>

#include "sim/study/goodput_result.h"

namespace epsim::test {

inline LoadPoint sample_probe(double offered, double ttft_s) {
  LoadPoint p;
  p.offered = p.measured_offered = p.completed = offered;
  p.ttft_s.count = p.tpot_s.count = p.e2e_s.count = 800;
  p.ttft_s.mean = ttft_s;
  p.ttft_s.p99 = 2 * ttft_s;
  p.tpot_s.mean = 0.1;
  p.tpot_s.p99 = 0.125;
  p.e2e_s.mean = 30;
  p.concurrency = p.outstanding = 30 * offered;
  p.slo = {0.5, -0.25, 0.1, 0, true, true};
  p.stable = p.enough_requests = true;
  p.requests = 1000;
  p.measured_requests = 800;
  p.steps = 5000;
  p.fingerprint = "00000000deadbeef";
  return p;
}

// Knees at `at_2` for k = 2 and `at_5` for k = 5, the one that was searched for; idle TTFT 0.5 s.
inline GoodputSearch sample_search(const std::string& policy, int seed_index, double at_2, double at_5) {
  GoodputSearch s;
  s.policy = policy;
  s.seed_index = seed_index;
  s.seed = static_cast<std::uint64_t>(7 + seed_index);
  s.idle_ttft_s = 0.5;
  s.saturation = 10;
  s.knee = {5, at_5, 2.5, KneeLimit::kTtft, 0.02, false, true};
  s.sensitivity = {{2, at_2, 1.0, KneeLimit::kTtft, 0.5, true, true}};
  s.best = sample_probe(at_5, 2.4);
  s.curve = {sample_probe(at_2, 1.0), s.best};
  s.kv_lost_share = policy == "base" ? 0 : 0.25;
  s.kv_tokens_per_rank = 1000;
  return s;
}

// Two seeds. At k = 5, eplb serves 6 / 4 and 9 / 5 = 1.5 and 1.8 times what base does; at k = 2, half and 0.52 times.
inline GoodputStudy sample_study() {
  GoodputStudy study;
  study.options.sensitivity = {2};
  study.policies = {"base", "eplb"};
  study.seeds = 2;
  study.searches = {sample_search("base", 0, 2, 4), sample_search("base", 1, 2.5, 5), sample_search("eplb", 0, 1, 6),
                    sample_search("eplb", 1, 1.3, 9)};
  return study;
}

// With branches. base is served past its knee at up to 10/s, and waits ten times as long from empty; eplb's start does not
// matter. Aligned, base serves 6 and 7.5 requests/s, eplb 9 and 13.5.
inline GoodputStudy sample_branch_study() {
  GoodputStudy study = sample_study();
  study.options.branches = true;
  study.alignment = "serving.hold=true";
  study.aligned = study.searches;
  for (std::size_t i = 0; i < study.searches.size(); ++i) {
    GoodputSearch& s = study.searches[i];
    study.aligned[i].knee.rate *= 1.5;
    for (const double rate : branch_rates(s, study.options)) {
      const bool base = s.policy == "base", past = rate > s.best.offered;
      if (past) {
        s.curve.push_back(sample_probe(rate, 40));
        s.curve.back().stable = !base;
      }
      s.from_backlog.push_back(sample_probe(rate, base && past ? 4 : s.curve.back().ttft_s.mean));
      s.from_backlog.back().backlog = 500;
    }
  }
  return study;
}

// The same policies under an SLO: base meets it up to 4 and 5 requests/s, eplb up to `ratio` times as many, but for
// what `apart` adds to and takes from it under the two seeds.
inline GoodputStudy sample_slo_study(double ratio, double apart = 0) {
  GoodputStudy study = sample_study();
  study.options.slo = {{{LatencyMetric::kTtft, LatencyStat::kEach, Seconds{2}}}, 0.95};
  for (GoodputSearch& s : study.searches) {
    const double base = s.seed_index == 0 ? 4 : 5;
    const double own = s.policy == "base" ? base : base * (ratio + (s.seed_index == 0 ? apart : -apart));
    s.slo = {true, own, 0.75 * own, 1.25 * own, "ttft<2s"};
    s.best = sample_probe(own, 1.5);
  }
  return study;
}

}  // namespace epsim::test
