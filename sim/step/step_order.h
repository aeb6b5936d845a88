// The stages of a step in the order in which they are issued, and what each waits for: one table for every overlap and
// for policies that act in every step. step_graph.h makes the task graph of it.
//
//   barrier, no overlap  attention and gate of each rank -> [counts -> dispatch] -> experts of each GPU -> shared experts
//                        of each rank -> combine
//   shared_expert        shared experts on the SMs beside [counts -> dispatch]
//   two_batch            halves A and B in turn on every GPU's stream, as SGLang issues them:
//                        (shared A, attention A, gate A) (shared B, attention B, gate B) (experts A) (experts B) ...
//                        with dispatch and combine of one beside the kernels of the other, in order on one stream of
//                        exchanges; shared experts run beside their own half's combine
//   two_batch, decode    the same for steps without prompts, in the five stages of DeepSeek's and SGLang's decode order
//                        (deepseek-ai/open-infra-index, day 6; SGLang, operations_strategy.py): 1 attention up to the
//                        scores, 2 scores to gate, 3 dispatch sent, shared experts, 4 dispatch awaited, experts,
//                        combine sent, 5 combine awaited; half B two stages behind A. Dispatch is beside shared experts
//                        and stage 1 of the other half, combine beside the other half's stage 2.
//   all policies         after the gate all GPUs exchange the ids of the chosen experts (one latency), from which the
//                        host plans
//   prefetching          the plan for layer l + 1 is made in layer l; its copies run on the copy engines from then on, and
//                        the experts of layer l + 1 wait for what is late. The first MoE layer has no copies.
//   on demand            the plan stands between gate and dispatch; copies start with it; a GPU computes its own experts
//                        first and those it fetched when they are there
//   before dispatch      the plan stands between gate and dispatch, and so do the copies
//   two stages           tokens that live with their expert are computed while all tokens are gathered and the host
//                        plans; the others when all three are done. Combine is a reduce-scatter.
//   Ignores: policies with two-batch or shared-expert overlap; copies of a GPU's own experts into a double buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "policies/step_policy.h"
#include "sim/domain/step.h"
#include "sim/domain/step_recorder.h"
#include "sim/scenario/execution_options.h"

namespace epsim {

// clang-format off
// Those of a rank; of all GPUs; of a GPU; of a port of a pairwise exchange; of a policy; none with tasks: the stream waits
// for the combine.
enum class Stage : std::uint8_t {
  kAttention, kPrepare, kScores, kGate, kPredict, kShared, kDense, kHead,  // kPrepare and kScores are kAttention
  kCounts, kDispatch, kCombine,
  kFirstExperts, kExperts,
  kDispatchIn, kDispatchOut, kCombineIn, kCombineOut,
  kIds, kPlan, kCopies, kCopied,
  kAwait
};
// clang-format on

struct StageRow {
  Stage stage;
  LayerPart part;  // that its time counts as
  StepLane lane;   // that it keeps busy
};
const StageRow& row_of(Stage stage);

// What a stage of a rank or a GPU waits for: of the same half of the batch, on the same rank or GPU; of all of them
// where all GPUs do it together.
namespace needs {
inline constexpr unsigned kOwnRank = 1;        // what the rank did last, but for what runs aside
inline constexpr unsigned kGates = 2;          // the gate
inline constexpr unsigned kRows = 4;           // the rows that dispatch brings
inline constexpr unsigned kLastExperts = 8;    // the experts issued last
inline constexpr unsigned kEarlyExperts = 16;  // the first experts of the layer
inline constexpr unsigned kIds = 32;
inline constexpr unsigned kPlan = 64;
inline constexpr unsigned kCopies = 128;
}  // namespace needs

// A stage of a layer, or several that every rank does one after the other before the next rank's are issued.
struct Issue {
  std::vector<Stage> stages;
  unsigned after = needs::kOwnRank;
  int batch = 0;
  int layer = 0;       // against the layer at hand; a layer that the model lacks has no such stage
  bool aside = false;  // what the rank does next does not wait for it
};

struct StepOrder {
  int batches = 1;
  bool streams = false;  // a GPU's kernels run in the order of issue, whatever they wait for
  bool counts = true;    // where the model exchanges counts ahead of the dispatch
  std::vector<Issue> layer, tail;
};

// `decode`: the order of two_batch for steps without prompts; no other overlap has one of its own.
StepOrder order_of(StepOverlap overlap, bool decode = false);
// Under a policy that acts in every layer, as its ExecutionProfile declares it.
StepOrder order_of(const ExecutionProfile& profile);

}  // namespace epsim
