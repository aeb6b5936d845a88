// A run in figures. Everything that a writer prints about a run as a whole is computed here, once; metrics.md defines
// each figure under the name that the files give it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/cluster/run_result.h"
#include "sim/core/units.h"
#include "sim/domain/cost.h"
#include "sim/domain/step.h"
#include "sim/report/bottleneck.h"
#include "sim/report/format.h"

namespace epsim {

// One latency over `samples` values, in ms; kUndefined throughout when there is none.
struct LatencyFigures {
  std::int64_t samples = 0;
  double mean_ms = kUndefined, p50_ms = kUndefined, p90_ms = kUndefined, p99_ms = kUndefined, max_ms = kUndefined;
};

// Rates count completed requests over `duration_s`, from the first arrival to the last event of the run.
struct ThroughputFigures {
  double duration_s = 0;
  double offered_requests_per_s = kUndefined;  // arrivals: (requests - 1) / (last arrival - first arrival)
  double requests_per_s = kUndefined;
  double input_tokens_per_s = kUndefined, output_tokens_per_s = kUndefined;
  double input_tokens_per_s_per_gpu = kUndefined, output_tokens_per_s_per_gpu = kUndefined;
};

// mean / max GPU load. Undefined when no step ran.
struct BalanceFigures {
  double mean = kUndefined;  // mean over layers of the mean over steps
  double worst_layer_mean = kUndefined;
  int worst_layer = -1;             // its number in the model; the first of several equal ones; -1 = no layer
  double lowest_step = kUndefined;  // lowest of any layer in any step
  double planned = kUndefined;      // mean over layers on the window that the plan was made from
};

struct TimeShare {
  double seconds = 0;
  double share = kUndefined;  // of the time of all steps
};

// Steps of one kind, of all instances or of the instances of one pool.
struct StepKindFigures {
  std::string pool;  // "all", or the role of its instances
  StepKind kind = StepKind::kPrefill;
  std::int64_t steps = 0;
  double mean_ms = kUndefined;
  TimeShare time;                            // share of the step time of the pool
  std::array<TimeShare, kLayerParts> parts;  // shares of `time`
  TimeShare straggler;
};

struct KvFigures {
  std::int64_t tokens_per_rank = 0;
  double gib_per_gpu = 0;
  double bytes_per_token_per_gpu = 0;
  double lost_to_copies_share = 0;     // of the pool that there would be without extra copies
  double copies_gib_per_gpu = 0;       // what that share is in GiB
  double peak_use_share = kUndefined;  // fullest rank at its fullest moment
  double mean_use_share = kUndefined;
  double full_time_share = kUndefined;                  // of busy time: a request at the head of a queue lacked blocks
  std::int64_t lookup_tokens = 0, hit_tokens = 0;       // of the prefix cache, at admission
  double hit_share = kUndefined;                        // hit / lookup
  std::int64_t retractions = 0, recomputed_tokens = 0;  // for lack of blocks
};

struct InstanceFigures {
  std::string role;
  std::int64_t steps = 0;
  double step_time_s = 0;
  double busy_share = kUndefined;
};

// Keys and values that went from prefill to decode instances.
struct TransferFigures {
  std::int64_t count = 0, tokens = 0;
  double mean_ms = kUndefined, wait_mean_ms = kUndefined;
};

struct LinkFigures {
  std::string name;                       // empty when the run has no links
  double utilisation_share = kUndefined;  // bytes / (data-sheet rate x duration)
};

struct RunSummary {
  std::string label, plan, fingerprint;
  bool interrupted = false;
  // More is offered than served: over the second half of the arrivals fewer than 95 % as many requests end as arrive,
  // and requests wait long for their first token. Not told of runs that were interrupted or have few requests.
  bool overloaded = false;
  int gpus = 0;

  std::int64_t offered = 0, completed = 0, failed = 0, running = 0, waiting = 0;  // requests, by their state at the end
  int concurrency = 0;                               // clients of a closed loop; 0: requests arrive by themselves
  std::int64_t warmup = 0;                           // requests, in no other figure
  std::int64_t retries = 0;                          // of requests whose rank was lost
  std::int64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  ThroughputFigures throughput;
  LatencyFigures ttft, itl, tpot, e2e, queue;

  std::int64_t steps = 0;
  std::int64_t replayed_steps = 0;  // of these, from a CUDA graph
  double step_mean_ms = kUndefined;
  std::vector<StepKindFigures> step_kinds;  // every kind over all instances, then of each pool where there are two
  double step_time_s = 0;                   // all steps together
  double busy_share = kUndefined;           // step_time_s / (duration_s x instances)
  std::array<TimeShare, kLayerParts> parts;
  std::array<TimeShare, kOrigins> origins;
  std::vector<std::string> warnings;      // settings that the engine would refuse or change
  std::vector<std::string> carried_over;  // what was measured on other hardware, and why that stands in
  TimeShare straggler;

  BalanceFigures balancedness;
  KvFigures kv;
  std::vector<InstanceFigures> instances;
  TransferFigures transfers;
  MemoryReport memory;
  RebalanceReport rebalance;
  RegroupReport regroup;
  LinkFigures busiest_link;  // the first of several equal ones
  BottleneckFigures dispatch_bottleneck, combine_bottleneck;
  ConservationReport conservation;
};

RunSummary summarize(const RunResult& run);

// First arrival to last event, without the warm-up of a closed loop and with it; zero when there is no request.
Seconds duration_of(const RunResult& run);
Seconds whole_duration_of(const RunResult& run);

// The largest over the mean of the values; 1 when all are zero, kUndefined when there is none.
double imbalance(std::span<const double> loads);

}  // namespace epsim
