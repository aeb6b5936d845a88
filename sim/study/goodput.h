// The goodput search: for every policy and seed, the highest request rate at which an SLO holds (slo_curve.h), or
// without one the knee of mean TTFT against request rate (goodput_curve.h) and the saturation throughput.
//
// All policies of a seed see the same requests at every rate (probe.h); seeds differ in requests and routing. A search
// is a chain of probes, each chosen from the ones before it, so that neither threads nor timing can change it; searches
// run in parallel. Those of the first seed come first, and tell the others where to begin.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster/run_control.h"
#include "sim/cluster/run_policy.h"
#include "sim/cluster/run_result.h"
#include "sim/core/error.h"
#include "sim/domain/request_trace.h"
#include "sim/scenario/scenario.h"
#include "sim/study/goodput_result.h"
#include "sim/study/job_runner.h"

namespace epsim {

// One policy under one seed: the requests, and how to serve a trace made from them. `serve` is called from several
// threads at once.
struct SearchTarget {
  std::string policy;
  int seed_index = 0;
  std::uint64_t seed = 0;
  const RequestTrace* trace = nullptr;
  // The same trace with at least so many requests: the first ones are those of `trace`. Empty: there are no more.
  std::function<std::shared_ptr<const RequestTrace>(std::size_t)> longer = {};
  // Scenario::make_paced.
  std::function<RequestTrace(std::size_t, double pace)> paced = {};
  std::function<RunResult(const RequestTrace&)> serve;
  double kv_lost_share = 0;
  std::int64_t kv_tokens_per_rank = 0;
  std::size_t protocol_requests = 0;  // Protocol::requests
  bool aligned =
      false;  // prompts are held until all DP ranks have one: beside the policy's usual target, for comparison
};

// Requests that a trace is made as long as, at most: about 100 bytes each for every run at a time.
inline constexpr std::size_t kMostGoodputRequests = 1'000'000;

// How a caller follows a search; called from several threads at once. May be empty.
using OnLoadPoint = std::function<void(const SearchTarget&, const LoadPoint&)>;
// How far the run is that a search is making, told every few hundred steps; likewise.
using OnServing = std::function<void(const ServedSoFar&)>;

struct SearchStart {
  double rate = 0;           // requests/s; 0: from the saturation throughput
  double step = 1.25;        // factor between rates until there is a bracket
  std::size_t requests = 0;  // of the trace, that a rate takes of which nothing is known; 0: all
  // Of the target, where they are known already; 0: to be measured.
  double saturation = 0;  // requests/s
  double idle_ttft_s = 0;
};

// Searches one target for the knee.
// Throws InputError when a rate within its bounds keeps so many requests in the system that the trace is too short to
// tell (naming how many are needed), StudyInterrupted, and what next_rate() throws.
GoodputSearch search_goodput(const SearchTarget& target, const GoodputOptions& options, const SearchStart& start,
                             const OnLoadPoint& on_load_point);

// Searches one target for the highest rate at which `options.slo` holds; of `start`, `rate`, `step` and `requests`
// count. Rates take as many requests as it takes to tell. Throws InputError when there are not as many,
// StudyInterrupted, and what next_slo_step() throws.
GoodputSearch search_slo(const SearchTarget& target, const GoodputOptions& options, const SearchStart& start,
                         const OnLoadPoint& on_load_point);

// All targets, in the order [policy][seed], for the SLO or else the knee; with longer traces where they are too short.
// With GoodputOptions::branches each of them, but the aligned ones, has its branches (branches.h). Aligned ones stand
// after all others, in the same order. Those that `store` has, as POLICY-SEED or POLICY-SEED-aligned, are not searched
// again; it may be null. As run_jobs() else.
std::vector<GoodputSearch> search_all(const std::vector<SearchTarget>& targets, const GoodputOptions& options,
                                      const OnLoadPoint& on_load_point, const JobStore* store = nullptr,
                                      const std::string& key_prefix = "");

// A policy of a scenario with its plan made. `control` is that of every run; it and the scenario outlive the target.
SearchTarget target_of(const Scenario& scenario, std::shared_ptr<const PreparedRun> prepared, int seed_index,
                       const RunControl& control, const OnServing& on_serving = {});

// Throws InputError where faults or loads come, go or change at times of the run.
void check_lasting(const Scenario& scenario);
// The same, and where requests have no rate to search.
void check_searched(const Scenario& scenario);

// Subjects from scenarios that are alike but for the seed: every policy of every scenario, [policy][seed]. Throws what
// prepare_run() throws, which gets `plans`, and check_searched(). `control` is that of every run.
// It and the scenarios outlive the targets.
std::vector<SearchTarget> targets_of(const std::vector<Scenario>& by_seed, const RunControl& control,
                                     PlanCache* plans = nullptr, const OnServing& on_serving = {});

// `options` as the scenario's `protocol` completes them: its SLO where they have none. Throws what parse_slo() throws.
GoodputOptions by_protocol(GoodputOptions options, const Scenario& scenario);

// Throws InputError, naming the option, unless the values can be searched with.
void validate(const GoodputOptions& options);

}  // namespace epsim
