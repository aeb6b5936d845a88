// How the pieces of a step follow each other: the scenario's `execution:`.
//
//   mode     closed_form   sums, for steps in which nothing overlaps and exchanges wait for the slowest (the fast path)
//            event         a task graph per step, played by the event queue; the default where anything overlaps
//   sync     barrier       exchanges of tokens wait for the slowest GPU, as NCCL's collectives do
//            pairwise      each pair of sender and receiver goes when both are ready
//   overlap  none
//            shared_expert shared experts beside the dispatch
//            two_batch     each rank's batch in two halves, one's exchange beside the other's kernels (SGLang's
//                          --enable-two-batch-overlap)
#pragma once

#include <cstdint>
#include <span>

#include "sim/core/choice.h"
#include "sim/core/config.h"
#include "sim/core/units.h"

namespace epsim {

enum class ExecutionMode { kClosedForm, kEvent };
template <>
inline constexpr auto kNames<ExecutionMode> = choice<ExecutionMode>({{"closed_form", ExecutionMode::kClosedForm},
                                                                     {"event", ExecutionMode::kEvent}});
enum class StepSync { kBarrier, kPairwise };
template <>
inline constexpr auto kNames<StepSync> = choice<StepSync>({{"barrier", StepSync::kBarrier},
                                                           {"pairwise", StepSync::kPairwise}});
enum class StepOverlap { kNone, kSharedExpert, kTwoBatch };
template <>
inline constexpr auto kNames<StepOverlap> = choice<StepOverlap>({{"none", StepOverlap::kNone},
                                                                 {"shared_expert", StepOverlap::kSharedExpert},
                                                                 {"two_batch", StepOverlap::kTwoBatch}});

struct ExecutionOptions {
  ExecutionMode mode = ExecutionMode::kClosedForm;
  StepSync sync = StepSync::kBarrier;
  StepOverlap overlap = StepOverlap::kNone;
  // two_batch: a step in which the fullest rank has fewer tokens runs as one batch.
  std::int64_t two_batch_min_tokens = 2;
  // Share of a GPU's SMs that an exchange takes from the kernels beside it. 20 of an H100's 132: the default of
  // DeepEP's normal kernels (deepseek-ai/DeepEP, Buffer.num_sms); 0 for its low-latency kernels with a receive hook.
  double exchange_sm_share = 20.0 / 132.0;
  // Speed of kernels beside a copy of weights, 1 = undisturbed. Copy engines take no SMs; what they take is memory
  // bandwidth, which kernels bound by arithmetic do not miss.
  double speed_beside_copies = 1.0;
};

std::span<const Key> execution_keys();

// Reads the mapping `execution`; calls finish().
ExecutionOptions read_execution_options(ConfigReader in);

}  // namespace epsim
