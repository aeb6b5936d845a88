// What a capacity search asks and what it leaves behind: plain values, written here, read by sim/report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scheduler/serving_options.h"
#include "sim/study/goodput_result.h"

namespace epsim {

// How one instance runs.
struct CapacityDesign {
  InstanceRole role = InstanceRole::kWhole;
  std::string node;
  int nodes = 1;
  int attention_tp = 1;
  std::string engine, dtype;
  int gpus = 0;
  std::vector<std::string> settings = {};  // of the scenario besides, as for --set
  std::string policy = {};
  int per_node = 1;                     // instances for which a node has room; more than one with nodes = 1 alone
  std::string size = "1";               // nodes, "1/2" of one, or "8gpus" of one
  std::vector<std::string> knobs = {};  // of this pool's engine, "cuda_graph_max_bs=128"
  int ep_size = 0;                      // EP ranks; 0: one a GPU
  // What is varied, then what its engine needs.
  std::vector<std::string> stated() const {
    std::vector<std::string> out = settings;
    out.insert(out.end(), knobs.begin(), knobs.end());
    return out;
  }
  int ep_ranks() const { return ep_size > 0 ? ep_size : gpus; }
  // With one EP rank all GPUs split every expert: nothing is placed.
  bool places_experts() const { return ep_size != 1; }
  bool part() const { return size.find_first_not_of("0123456789") != std::string::npos; }
};
// "decode, 4 x p5en.48xlarge, attention TP 1, sglang, fp8, eplb"; "attention TP 8, EP 1".
std::string name_of(const CapacityDesign& design);

// Instances that are alike.
struct CapacityPool {
  CapacityDesign design;
  int instances = 1;
  // With so many spare instances.
  int nodes(int spare = 0) const { return (instances + spare + design.per_node - 1) / design.per_node * design.nodes; }
};

// The smallest deployment with the same load on every instance: pools in their ratio, under every `one_in`-th request.
// What a router that takes instances in turn sends to them.
struct DeploymentShare {
  std::vector<CapacityPool> pools;
  int one_in = 1;
};
DeploymentShare share_of(std::vector<CapacityPool> pools);

struct CapacityQuestion {
  std::string model;
  bool dense = false;  // it has no experts, and one policy
  double rate = 0;     // requests/s that the deployment is to serve
  // Clients of a closed loop that it is to serve instead; 0: none. `rate` is then the least that they send, where each
  // request takes as long as its bounds allow.
  double in_flight = 0;
  std::vector<std::string> settings;    // of every scenario: requests, loads
  GoodputOptions options;               // with the SLO
  std::vector<CapacityDesign> layouts;  // without policies; decode ones need prefill ones of their kind of node
  std::vector<std::string> policies;    // the first is asked where there is nothing to compare with yet
  int most_nodes = 128;                 // of a deployment, spare ones, too
  bool power_counts = false;            // of deployments of as many nodes, the one that draws less may be the answer
  int spare = 0;                        // instances of each pool beyond those that hold the SLO
  std::size_t first_requests = 400;     // of a run; more where they do not tell
  std::size_t most_requests = 12'000;
  int seeds = 3;            // under which the recommended deployment's highest rate is searched; 0: none
  bool check_whole = true;  // run the recommended deployment with all its instances
  // Those are asked the what-ifs, too: one's share of a recording's bursts, or of clients, who return to it in the batches in which
  // its requests end, is another load than an instance of several has.
  bool share_differs = false;
  bool every_what_if = true;  // or slower steps alone
};

// What a term bounds, in seconds; undefined (NaN) for a bound of each request.
double statistic_of(const LoadPoint& point, const SloTerm& term);
// How far the statistics are from their bounds, as the logarithm of the worst ratio; of bounds of each request their
// p99 counts. Smooth in the rate, unlike the excess of a share of requests.
double strain_of(const LoadPoint& point, const Slo& slo);

struct CapacityAnswer;
// It fails, but its latencies are within kNarrowly of their bounds, or its intervals contain them: a run of all
// instances may hold.
inline constexpr double kNarrowly = 0.1;
bool misses_narrowly(const CapacityAnswer& answer, const Slo& slo);

// What a run says.
struct CapacityAnswer {
  LoadPoint point;
  double busy = 0;                             // share of the measured time in which instances run steps
  int instances = 1;                           // of the last pool, which `point` is of
  std::int64_t kv_tokens = 0;                  // of one instance, of the last pool
  double input_tokens = 0, output_tokens = 0;  // means of the requests
  double held_token_s = 0;                     // of one that is alone: KV tokens that a request holds x seconds, mean
  double extrapolated = 0;                     // share of the steps' time whose price is
  std::vector<std::string> carried_over;       // RunResult::carried_over
  std::string refused;                         // why it cannot run at all

  bool holds() const { return refused.empty() && point.slo.holds; }
};

enum class CapacityStatus {
  kBest,       // the fewest nodes of its chain; of as many, the clearest of its bounds or the least power
  kHolds,      // holds, but another of the chain is better in that
  kFails,      // does not hold with fewer nodes than the best nor with as many, or with any number
  kCeiling,    // would not be better than the best even in perfect balance
  kBound,      // could not with as few nodes, by its GPUs' peak rate
  kAlone,      // not even a request that is alone meets the SLO
  kDoesNotFit  // or cannot run
};
std::string_view name_of(CapacityStatus status);

// A design's place in the ledger.
struct CapacityRow {
  CapacityDesign design;
  CapacityStatus status = CapacityStatus::kFails;
  std::string reason = {};
  int bound = 1;      // instances at least, by the GPUs' peak rate
  int instances = 0;  // that `answer` is of; 0: none was run
  std::optional<CapacityAnswer> answer = {};
  CapacityAnswer alone = {};  // of its layout, where a request that is alone was run
  // Of what cannot run: tokens of a DP rank's KV pool where a request needs more, less than 0 the GiB that weights lack;
  // nothing where neither is why.
  std::optional<double> room = {};
};

// How far steps are off: a little more than the mean error of predicted TPOT on all served points, 9.6 %
// (experiments/served/README.md).
inline constexpr double kStepError = 0.099;
inline constexpr std::string_view kSlower = "steps 10 % longer";  // a CapacityWhatIf

// A deployment, asked for something else than the demand.
struct CapacityWhatIf {
  std::string what;       // "demand +10 %", "experts half again as skewed"
  double growth = 0;      // of the demand, as a share
  DeploymentShare share;  // that was run
  CapacityAnswer answer;
};

// What serves the demand: one pool, or prefill and decode.
struct CapacityOption {
  std::vector<CapacityPool> pools;
  int spare = 0;                        // instances of each pool besides
  CapacityAnswer alone;                 // of a request that is alone
  CapacityAnswer answer;                // of its share_of() at that share of the rate
  std::optional<CapacityAnswer> whole;  // of all instances at the rate, where they were run
  std::vector<GoodputSearch> searches;  // by seed: the highest rate of its share_of()
  std::vector<CapacityWhatIf> what_ifs = {};
  int nodes() const;
  const std::string& node() const { return pools.front().design.node; }
};

struct CapacityStudy {
  std::vector<CapacityRow> rows;
  std::vector<CapacityOption> options;  // at most two for each kind of node: one pool, and prefill and decode
  std::vector<CapacityOption> close;    // that miss the SLO narrowly at their share, with fewer nodes than those
  std::optional<CapacityRow> nearest;   // where there is no option: the one with the least excess, not an overload
  std::int64_t runs = 0;                // of asked questions, finished before or now
};

}  // namespace epsim
