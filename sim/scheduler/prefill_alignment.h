// Whether the DP ranks of an instance may start new prompts in the pass that begins: one step with prompts on all ranks
// takes much less time than a step for each of them, so engines hold prompts back until the ranks have them together.
//
//   Source : SGLang's PrefillDelayer, managers/prefill_delayer.py (pull requests 16269, 16363, 16814, January 2026): in
//            each pass the ranks tell each other whether they could start a prompt. All or none: go on. Some: held, for
//            max_delay_passes - 1 passes in a row, unless one of those that could uses less of its KV tokens than
//            token_usage_low_watermark. A prompt under way goes on, and does not count as one that could start.
//            SGLang's prefill_decode_interval (pull request 35017, August 2026): after a step with prompts on any rank, so
//            many passes start and continue none; passes without anything to run count.
//            vLLM's prefill_schedule_interval (pull request 44558, June 2026): only every so many steps of a wave start
//            or continue prompts; what a rank makes of the others is vllm.cpp's.
//            TensorRT-LLM's attention_dp_config.enable_balance (v1.1, _torch/pyexecutor/py_executor.py,
//            _balance_adp_requests): prompts, new ones and those under way, wait until all ranks have some and a free
//            slot, for timeout_iters - 1 steps in a row, and then for batching_wait_iters more while all decode; not while
//            a rank has prompts and no decodes. A rank without requests counts as one that decodes, since it gets a
//            sequence of padding (_pad_attention_dp_dummy_request).
//   Ignores: SGLang's later triggers by queue length and by free request slots (pull requests 19942, 23189, 32880), and
//            that since pull request 31835 a rank counts as one that could only when its memory has room; vLLM's
//            adaptive delayer (pull request 51199, open), ATOM's coalescer by tokens (its pull request 1611).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "sim/core/units.h"

namespace epsim {

struct PrefillAlignment {
  int max_delay_passes = 0;                         // SGLang's; 0 = prompts are never held
  std::optional<double> token_usage_low_watermark;  // share of a rank's KV tokens, 0 to 1
  int decode_interval = 0;                          // SGLang's, in passes
  int schedule_interval = 1;                        // vLLM's, in steps
  int timeout_iters = 0, batching_wait_iters = 0;   // TensorRT-LLM's, in steps; no timeout = prompts are never held
  bool holds_any() const {
    return max_delay_passes > 0 || decode_interval > 0 || schedule_interval > 1 || timeout_iters > 0;
  }
};

// A rank's word in a pass.
struct PrefillRank {
  bool could_start = false;  // a request waits that the rank would look at
  double token_usage = 0;    // share of its KV tokens in use
  bool decodes = false;      // some sequence decodes, or the rank has no request at all
  bool has_slot = true;      // fewer decode than may run
};

// SGLang's scheduler loop passes 188 times a second where it has nothing to run: "max_delay_passes=3000, about 16s at
// the idle scheduler tick rate of about 188Hz" (test_prefill_delayer.py, on 8 H200).
inline constexpr Ticks kIdlePass{1'000'000'000'000 / 188};

class PrefillGate {
 public:
  explicit PrefillGate(const PrefillAlignment& options = {}) : options_(options) {}
  bool off() const { return !options_.holds_any(); }
  // One call a pass, with the ranks that are left. True: no prompt starts in it.
  bool holds(std::span<const PrefillRank> ranks);
  // Whether the latest pass lets prompts under way wait, too, whatever the engine.
  bool holds_all() const { return holds_all_; }
  // The pass has formed its step; `prompts`: some rank has some.
  void on_formed(bool prompts) { decodes_left_ = prompts ? options_.decode_interval : decodes_left_; }
  // The instance has run out of work: the next step is the first of a wave.
  void on_idle() { wave_step_ = 0; }

 private:
  bool delays(std::span<const PrefillRank> ranks);
  bool balances(std::span<const PrefillRank> ranks);

  PrefillAlignment options_;
  int delayed_ = 0;               // passes in a row
  int waited_ = 0, batched_ = 0;  // steps in a row, TensorRT-LLM's
  int decodes_left_ = 0;          // passes until prompts go on
  bool holds_all_ = false;
  std::int64_t wave_step_ = 0;
};

}  // namespace epsim
