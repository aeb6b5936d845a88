// Waterfill: the shared expert's tokens, which every GPU would compute where they live, go to GPUs with few routed ones.
//   Models : the shared expert as one more routed expert with a copy on every GPU. A waterline H = (all GPUs' loads + all
//            tokens) / GPUs, rounded up; each token draws a GPU with chance in proportion to max(H - load, 0), a tenth
//            more for its own. A GPU's load is its routed assignments plus the tokens that live on it, added up over all
//            GPUs; with own_counts, which SGLang does where experts were placed by an initial recording, each GPU
//            goes by the routed assignments of its own tokens alone. Without own_counts a token chooses among its own GPU and
//            those that it visits anyway, unless no load is above H. GPUs of fewer than 64 tokens keep theirs.
//            Shares are expectations: of a GPU's chance given that the token visits it, others as they are on average.
//   Ignores: the drawing itself; which copy of a routed expert is the nearest (copies share evenly).
//   Source : SGLang, `--enable-deepep-waterfill` (PR 20089, 19290): layers/moe/deepep_waterfill.py at 0389b97; behaviour only.
//   Valid  : cases done by hand (tests/policies/waterfill_test.cpp); gains beside measured ones in experiments/eplb-measured.
#pragma once

#include "policies/residency.h"
#include "policies/step_policy.h"

namespace epsim {

struct WaterfillOptions {
  bool own_counts = false;
  std::int64_t min_tokens = 64;  // of a GPU
};

// Where each GPU's tokens have their shared expert, given who computes the routed ones.
SharedDispatch waterfill_shares(const RequestMatrix& requests, const TokenAssignment& routed,
                                const WaterfillOptions& options);

}  // namespace epsim
