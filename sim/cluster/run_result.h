// What a run leaves behind: plain values, written by sim/cluster, read by sim/report.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/rebalance_report.h"
#include "sim/cluster/regroup_report.h"
#include "sim/core/statistics.h"
#include "sim/core/units.h"
#include "sim/domain/request_trace.h"
#include "sim/domain/step.h"
#include "sim/scheduler/request_record.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// Latencies over completed requests; ITL over all gaps between consecutive tokens of one request, pooled.
struct LatencySummary {
  Summary ttft_s, itl_s, tpot_s, e2e_s, queue_s;
};

// The KV pool of the DP ranks (all alike), in blocks.
struct KvStats {
  std::int64_t blocks_per_rank = 0;
  int block_tokens = 1;
  std::int64_t peak_blocks = 0;    // of the fullest rank
  double mean_use = 0;             // time average over ranks, share of the pool reserved
  double time_full_share = 0;      // share of busy time in which a request at the head of a queue lacked blocks
  std::int64_t lookup_tokens = 0;  // input tokens of admitted requests
  std::int64_t hit_tokens = 0;     // of these, found in the prefix cache
  std::int64_t evicted_prefix_blocks = 0;
  std::int64_t retractions = 0;        // of requests from running back to waiting, for lack of blocks
  std::int64_t recomputed_tokens = 0;  // put into KV memory once more because of that
  bool prefix_cache = false;           // is on, and requests have prefixes in common
};

// Steps of one kind.
struct KindTotals {
  std::int64_t steps = 0;
  StepCost time;  // summed over them
};
using StepsByKind = std::array<KindTotals, kStepKinds>;  // [StepKind]

// One instance's share of a run.
struct InstanceTotals {
  InstanceRole role = InstanceRole::kWhole;
  std::int64_t steps = 0;
  std::int64_t replayed_steps = 0;  // of these, from a CUDA graph
  StepCost time;                    // summed over steps
  StepsByKind by_kind{};
  int gpus = 0;
  std::int64_t most_decodes = 0;  // rows of a DP rank in a step without prompts, padding included
  Seconds eager_decodes{};        // of such steps, those that no CUDA graph held though graphs are on
};

// Prompts that went from prefill to decode instances.
struct TransferStats {
  std::int64_t count = 0;
  std::int64_t tokens = 0;
  Seconds time{};             // on the link, summed over transfers
  Seconds wait{};             // behind others, where prompts leave and where they arrive
  Seconds wait_for_memory{};  // of prompts, until their decode instance has set memory aside
  struct Carried {
    std::int64_t prompts = 0, tokens = 0;
  };
  // [instance][lane] what left by it, or came in; a lane that carried nothing may be missing.
  std::vector<std::vector<Carried>> sent = {}, received = {};
};

// A stretch of a run. Means are over its time.
struct SeriesPoint {
  Seconds start{}, length{};
  double running = 0;              // requests that hold KV memory
  double queued = 0;               // requests that wait for it
  double kv_use = 0;               // share of the last pool (decode instances, where there are any)
  std::int64_t output_tokens = 0;  // handed out
  std::int64_t first_tokens = 0;   // of these
  Seconds ttft_sum{};              // of the requests that these belong to
  double stepping_gpus = 0;        // of instances that run a step
};
struct RunSeries {
  Ticks width{};  // of every stretch but the last, which ends with the run
  std::vector<SeriesPoint> points;
};

// One line of the memory account of a GPU.
struct MemoryItem {
  std::string name;
  Bytes size{};
};
inline constexpr std::string_view kRoutedExpertsItem = "routed experts";
// Experts beyond an even share on the fullest GPU: copies, or in a plan that makes none, uneven homes.
inline constexpr std::string_view kExtraCopiesItem = "extra copies", kUnevenExpertsItem = "uneven experts";
inline constexpr std::string_view kPrefetchBuffersItem = "prefetch buffers", kMigrationBufferItem = "migration buffer";
// What takes KV room: "copies and buffers".
constexpr std::string_view extras_words(bool uneven, bool copies, bool buffers) {
  return !buffers ? (uneven ? kUnevenExpertsItem : "copies")
         : uneven ? "uneven experts and buffers"
         : copies ? "copies and buffers"
                  : "buffers";
}
// RunResult::row_sharing of a policy that acts in every step.
inline constexpr std::string_view kIndependentRows =
    "counted as if experts were used independently, as for every policy that acts in every step";
struct MemoryReport {
  std::vector<MemoryItem> items;  // of the fullest GPU; sums to the static pool
  Bytes kv_pool{};                // per GPU
  Bytes kv_bytes_per_token{};     // per GPU
  Bytes copies{};                 // extra copies on the fullest GPU
  std::vector<Bytes>
      over_mean;              // [GPU] resident experts over those of a GPU without copies; negative where it has less
  Bytes buffers{};            // of the policy, on every GPU: prefetch buffers, slots of copies, a layer on the move
  double lost_to_extras = 0;  // share of the KV pool that extra copies and buffers took
};

// A run's own sanity account (physics.md section 9); every entry held when the run was accepted.
struct ConservationReport {
  double assignments_routed = 0, assignments_executed = 0, assignments_dropped = 0, assignments_rerouted = 0;
  double bytes_sent = 0, bytes_received = 0;
  double little_l = 0, little_lambda_w = 0;  // mean requests in the system, and arrival rate x mean residence
};

struct RunResult {
  std::string label;                      // what the comparison calls this run, usually the policy's name
  std::string overrides;                  // keys that its label sets before the scenario's; may be empty
  std::string plan_summary;               // what the policy did, one line
  std::string row_sharing;                // where rows are sent once: what told which experts share one; may be empty
  bool whole_counts = false;              // steps were drawn in assignments, not priced on expected counts
  std::vector<std::string> warnings;      // what the engine would refuse or change; a policy that did nothing
  std::vector<std::string> carried_over;  // what was measured on other hardware, and why that stands in
  bool interrupted = false;               // cut short (Ctrl-C): only complete steps are in it
  std::string fingerprint;                // of the event sequence

  RequestRecords requests;
  int concurrency = 0;      // clients of a closed loop, 0 = requests arrived by themselves
  std::size_t ramp = 0;     // RequestTrace::ramp
  std::int64_t warmup = 0;  // first requests, which counts, latencies and rates leave out
  std::span<const RequestRecord> measured() const {
    return std::span(requests).last(requests.size() - static_cast<std::size_t>(warmup));
  }
  std::int64_t completed = 0, failed = 0;
  std::int64_t turns_waited = 0;  // of conversations, for the answer before them (RequestTrace::turn_before)
  std::vector<Ticks> due;  // [request] when the trace sends it, where turns wait; else empty, since all come then
  Ticks due_of(std::size_t request) const { return due.empty() ? Ticks{requests[request].arrival} : due[request]; }
  LatencySummary latency;
  Ticks end{};                    // last event
  std::int64_t input_tokens = 0;  // of completed requests
  std::int64_t output_tokens = 0;

  std::int64_t steps = 0;
  std::int64_t replayed_steps = 0;  // of these, from a CUDA graph
  StepCost time;                    // summed over steps
  double extrapolated_share() const {
    const double total = time.total.count();
    return total > 0 ? time.by_origin[static_cast<std::size_t>(Origin::kExtrapolated)].count() / total : 0;
  }
  StepsByKind by_kind{};
  const KindTotals& of_kind(StepKind kind) const { return by_kind[static_cast<std::size_t>(kind)]; }
  StepTotals detail;
  std::vector<InstanceTotals> instances;
  TransferStats transfers;
  std::vector<double> planned_balancedness;  // by MoE layer, on the window that the plan was made from
  std::vector<std::int64_t> extra_copies;    // by MoE layer: physical experts over logical ones
  KvStats kv;
  RunSeries series;
  MemoryReport memory;                     // of the last pool
  std::vector<MemoryItem> prefill_memory;  // of the fullest GPU that prefills, where others decode
  RebalanceReport rebalance;
  RegroupReport regroup;
  ConservationReport conservation;
  int gpus = 0;  // of all instances
};

}  // namespace epsim
