// SGLang's knobs, their names, and what SGLang chooses where the user does not, by GPU and by size of the instance.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/core/config.h"
#include "sim/scheduler/engine_profile.h"

namespace epsim {

// The tokens that running requests may still generate for which memory is kept when another request asks to enter.
//   Source : SGLang v0.4.8 global_config.py (0.7, 0.14, 600 steps, 20 steps), schedule_policy.py (4096), scheduler.py.
struct NewTokenRatio {
  double init = 0.7;                  // 0.7 x schedule_conservativeness, at most 1
  double min = 0.7 * 0.14;            // init x 0.14
  double decay = 0.7 * 0.86 / 600.0;  // per decode step, from init to min in 600 of them
  std::int64_t clip_tokens = 4096;    // more output than this is not promised
  std::int64_t retract_steps = 20;    // tokens of each remaining request that a retraction counts on
};

struct SglangKnobs {
  std::int64_t max_prefill_tokens = 16384;  // prompts that do not end below it wait unless they are the first
  // true: running decodes join the prefill batch and are taken off its token budget. false: a rank prefills while it
  // can, and decodes only in steps in which it could not prefill.
  bool mixed_chunk = false;
  bool longest_prefix_first = false;  // schedule_policy lpm, else first come, first served
  // true: a request enters with blocks for all of its input and output, so that none is ever retracted. No SGLang does.
  bool reserve_full = false;
  NewTokenRatio ratio = {};
  // A retraction goes on until the next step fits (v0.5.2 on); false: until `ratio.retract_steps` tokens of each remaining
  // request do (v0.4.8 to v0.5.1). schedule_batch.py, retract_decode.
  bool retracts_for_next_step = false;
  std::int64_t reserved_decode_tokens = 512;  // kept free for each request of a decode instance when another enters
};

std::span<const Key> sglang_keys();
std::span<const Key> sglang_0_5_keys();  // the same and more
void read_sglang_0_5(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);
void read_sglang(ConfigReader& in, const Budgets& budgets, const EngineSite& site, EngineSettings& out);

// Tokens of a chunk, for all DP ranks together.
EngineDefault<std::int64_t> sglang_chunk(const EngineSite& site);
// Captured batch sizes in requests, ascending; none where `largest` is below 1.
EngineDefault<std::vector<std::int64_t>> sglang_graph_sizes(const EngineSite& site, const GraphWishes& wishes);
// Requests of a DP rank, 0 = no own limit.
EngineDefault<std::int64_t> sglang_running(int dp_ranks, bool speculative);
// Of models with MLA: fa3, flashinfer or triton.
EngineDefault<std::string> sglang_attention_backend(const EngineSite& site);
// The fraction of static memory.
EngineDefault<double> sglang_static_fraction(const EngineSite& site, bool speculative);

}  // namespace epsim
