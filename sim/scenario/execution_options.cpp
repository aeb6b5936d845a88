#include "sim/scenario/execution_options.h"

namespace epsim {

ExecutionOptions read_execution_options(ConfigReader in) {
  ExecutionOptions out;
  out.sync =
      in.choice("sync", {"barrier", "pairwise"}, "barrier") == "barrier" ? StepSync::kBarrier : StepSync::kPairwise;
  const std::string overlap = in.choice("overlap", {"none", "shared_expert", "two_batch"}, "none");
  out.overlap = overlap == "none"            ? StepOverlap::kNone
                : overlap == "shared_expert" ? StepOverlap::kSharedExpert
                                             : StepOverlap::kTwoBatch;
  const bool plain = out.sync == StepSync::kBarrier && out.overlap == StepOverlap::kNone;
  const std::string mode = in.choice("mode", {"closed_form", "event"}, plain ? "closed_form" : "event");
  out.mode = mode == "event" ? ExecutionMode::kEvent : ExecutionMode::kClosedForm;
  in.check(
      plain || out.mode == ExecutionMode::kEvent, "mode",
      "closed_form knows barriers without overlap only; leave it out or use mode: event for this sync and overlap.");
  out.two_batch_min_tokens =
      in.optional<std::int64_t>("two_batch_min_tokens", out.two_batch_min_tokens, Bound::kPositive);
  in.check(out.two_batch_min_tokens >= 2, "two_batch_min_tokens", "a batch of one token has no halves; at least 2.");
  out.exchange_sm_share = in.optional<double>("exchange_sm_share", out.exchange_sm_share, Bound::kNotNegative);
  in.check(out.exchange_sm_share < 1.0, "exchange_sm_share", "a share of a GPU's SMs is less than 1.");
  out.speed_beside_copies = in.optional<double>("speed_beside_copies", out.speed_beside_copies, Bound::kPositive);
  in.check(out.speed_beside_copies <= 1.0, "speed_beside_copies", "a share of full speed is at most 1.");
  in.finish();
  return out;
}

}  // namespace epsim
