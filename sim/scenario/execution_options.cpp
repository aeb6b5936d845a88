#include "sim/scenario/execution_options.h"

namespace epsim {
namespace {

constexpr ExecutionOptions kOwn{};

constexpr KeyTable kExecutionKeys({
    {"sync", key::one_of<StepSync>(), key::is(kOwn.sync),
     "barrier: exchanges wait for the slowest GPU; pairwise: each pair of GPUs goes when both are ready."},
    {"overlap", key::one_of<StepOverlap>(), key::is(kOwn.overlap), "What overlaps the exchange of tokens."},
    {"mode", key::one_of<ExecutionMode>(), key::by("event where sync or overlap need it"),
     "closed_form: sums; event: a task graph for each step."},
    {"two_batch_min_tokens", key::whole(at_least(2)), key::is(kOwn.two_batch_min_tokens),
     "Steps with fewer tokens on the fullest DP rank run as one batch."},
    {"exchange_sm_share", key::number(below(1)), key::is(kOwn.exchange_sm_share),
     "Share of a GPU's SMs that an exchange uses while kernels run: 20 of 132."},
    {"speed_beside_copies", key::number(kPositiveShare), key::is(kOwn.speed_beside_copies),
     "Speed of kernels while weights are copied."},
});

}  // namespace

std::span<const Key> execution_keys() { return kExecutionKeys; }

ExecutionOptions read_execution_options(ConfigReader in) {
  ExecutionOptions out;
  out.sync = in.read<StepSync>(kExecutionKeys["sync"]);
  out.overlap = in.read<StepOverlap>(kExecutionKeys["overlap"]);
  const bool plain = out.sync == StepSync::kBarrier && out.overlap == StepOverlap::kNone;
  out.mode = in.read<ExecutionMode>(kExecutionKeys["mode"], plain ? ExecutionMode::kClosedForm : ExecutionMode::kEvent);
  in.check(plain || out.mode == ExecutionMode::kEvent, "mode",
           "closed_form has barriers and no overlap only; leave it out or use mode: event for this sync and overlap.");
  out.two_batch_min_tokens = in.read<std::int64_t>(kExecutionKeys["two_batch_min_tokens"]);
  out.exchange_sm_share = in.read<double>(kExecutionKeys["exchange_sm_share"]);
  out.speed_beside_copies = in.read<double>(kExecutionKeys["speed_beside_copies"]);
  in.finish();
  return out;
}

}  // namespace epsim
