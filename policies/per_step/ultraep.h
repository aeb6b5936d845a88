// UltraEP: in every layer of every step, hot experts are copied inside their NVLink domain by the loads as they are.
//   Models : once the routing is known, GPUs tell each other the loads and a threshold is bisected: the lowest to which the
//            domain's GPUs can be brought when those above it, the fullest first, hand tokens of their hottest
//            experts to the GPU with most room that has a free slot. Slots are one set for all layers. Weights move over the
//            domain's links from the expert's home, from 6 copies on through relays (as many as the root of the copies, at
//            most 8); tokens leave when weights have arrived. Tokens on a GPU that holds a copy keep to it. A domain is a
//            node of the cluster.
//   Ignores: that relays pass weights on in chunks behind the source (both ports are counted as if at once); weights
//            over the SMs instead of copy engines; reroute kernels; the counts by GPU of the all-gather (an all-reduce of
//            counts is priced).
//   Source : Dots-Infra/UltraEP at 26c6155 (README, docs/blog_v1.md, csrc/kernels/placement.cu), arXiv 2606.04101; behaviour only.
//            Planning: within 100 us for 64 GPUs (blog). The search begins 1 % above the mean (QUOTA_ORACLE_EPS). A copy has
//            at least the excess over the GPUs that could take it, as the kernel has it; the README's
//            QUOTA_MIN_TOKENS_PER_REPLICA of 1024, which the kernel does not look at, is min_tokens. UltraEP is for prefill:
//            steps of fewer than `prefill_tokens` a GPU are left alone, a judgement.
//   Valid  : cases done by hand (tests/policies/ultraep_test.cpp); on skewed loads 1.01 to 1.04 of the mean are published, of
//            1.30 to 4.01 before.
#pragma once

#include <vector>

#include "policies/residency.h"
#include "policies/step_policy.h"

namespace epsim {

struct UltraEpOptions {
  int slots = 2;                       // copies on a GPU; the README's example
  std::int64_t min_tokens = 0;         // of a copy; 0: the excess at hand over the GPUs that could take it
  std::int64_t prefill_tokens = 1024;  // of a GPU, on average
  double tolerance = 0.01;             // above the mean, where the search begins
};

StepDecision ultraep_decide(const RequestMatrix& requests, const Residency& home, const UltraEpOptions& options);

// Who sends an expert's weights to GPUs `to`: itself below 6, else relays among them.
std::vector<ExpertCopy> ultraep_fan_out(int expert, const std::vector<int>& to);

}  // namespace epsim
