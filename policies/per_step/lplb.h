// LPLB: in every layer of every step, tokens are split over the copies that a placement has made so that the fullest
// GPU is as light as it can be.
//   Models : minimise over the copies' loads the largest GPU load, where an expert's copies share its tokens and experts
//            of one copy have no choice; solved to the token. Tokens draw a copy by its share, wherever they live.
//            All GPUs add up their counts by expert and solve the same programme before dispatch.
//   Ignores: what five steps of the original's interior-point solver in float32 lack of the optimum; which of several
//            optima it finds; DeepSeek's own topologies of copies (cube, torus) and its exchange over NVSHMEM.
//   Source : SGLang, `--ep-dispatch-algorithm lp` (PR 24515); deepseek-ai/LPLB, README: about 100 us a solve; LMSYS blog of
//            2026-06-26, "Improving DeepEP MoE Load Balance in SGLang with Waterfill and LPLB", for the programme.
//   Valid  : equal to GLPK's simplex on random cases of 2 to 64 GPUs (tests/policies/lplb_glpk_test.cpp), in 25 to 145 us where GLPK
//            takes 2.4 to 4.3 ms (16 to 64 GPUs, 256 and 384 experts), and to the bound that every set of GPUs gives
//            (lplb_test.cpp); gains beside measured ones in experiments/eplb-measured.
#pragma once

#include "policies/residency.h"

namespace epsim {

// Who computes what: every expert's tokens on GPUs that hold it, the fullest GPU as light as whole tokens allow.
TokenAssignment lplb_assign(const RequestMatrix& requests, const Residency& held);

}  // namespace epsim
