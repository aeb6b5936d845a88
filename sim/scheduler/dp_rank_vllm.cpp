// vLLM V1's loop for one DP rank.
//
//   Source : vllm-project/vllm v0.9 and v0.10, vllm/v1/core/sched/scheduler.py: schedule() (one token budget; running
//            requests in order of admission, then waiting ones unless something was preempted; a request that finds no
//            blocks preempts the latest admitted one, which goes to the head of the queue and computes all again;
//            long_prefill_token_threshold caps a chunk); v1/core/kv_cache_manager.py: allocate_slots (blocks for the
//            tokens of this step only, no promise for later ones).
//   Differs: decodes take their place in the budget ahead of all prompts under way, also of those admitted earlier (it
//            matters only with long_prefill_token_threshold), and are not preempted for these; prefix blocks can be
//            shared from the end of the step on, not within it, and a block that two requests computed at once is kept
//            once.
#include <algorithm>

#include "sim/core/check.h"
#include "sim/scheduler/dp_rank.h"

namespace epsim {

void DpRank::begin_vllm(Ticks now) {
  const bool preempted = preempt_for_decodes();
  add_decodes();
  std::int64_t budget = options_.chunked_prefill_size - decodes_->step_tokens();
  const bool lacked = continue_prompts_vllm(budget);
  if (!preempted && !lacked) {
    enter_waiting_vllm(budget, now);
  } else {
    head_refused_ = !waiting_.empty();
  }
}

// The running request that was admitted last; one on its way cannot give way.
std::optional<std::int32_t> DpRank::latest() const {
  std::optional<std::int32_t> out;
  std::int64_t last = -1;
  for (const auto& [request, a] : active_) {
    if (a.order > last && std::find(in_transfer_.begin(), in_transfer_.end(), request) == in_transfer_.end()) {
      out = request;
      last = a.order;
    }
  }
  return out;
}

// Each decode that begins a page needs one; the latest requests give up theirs until the rest have enough.
bool DpRank::preempt_for_decodes() {
  bool preempted = false;
  while (!reserve_decodes()) {
    retract(latest().value(), true);
    preempted = true;
  }
  return preempted;
}

std::int64_t DpRank::chunk_vllm(std::int64_t rest, std::int64_t budget) const {
  const std::int64_t longest = options_.long_prefill_token_threshold;
  return std::min(longest > 0 ? std::min(rest, longest) : rest, budget);
}

// Goes on with the prompts under way; true when one of them lacked blocks. The latest admitted gives way; while that is
// a request that decodes in this step, the prompt waits.
bool DpRank::continue_prompts_vllm(std::int64_t& budget) {
  bool lacked = false;
  for (std::size_t i = 0; i < partial_.size() && budget > 0;) {
    const std::int32_t request = partial_[i];
    Active& a = active_.at(request);
    const std::int64_t n = chunk_vllm(a.prompt - a.done, budget);
    if (n <= room_tokens(a)) {
      add_chunk(request, a, n);
      budget -= n;
      ++i;
      continue;
    }
    lacked = true;
    if (const std::int32_t last = latest().value(); last == partial_.back()) {
      retract(last, true);
    } else {
      ++i;
    }
  }
  return lacked;
}

void DpRank::enter_waiting_vllm(std::int64_t& budget, Ticks now) {
  while (budget > 0 && !waiting_.empty()) {
    if (options_.max_running_requests > 0 && running() >= options_.max_running_requests) {
      return;
    }
    const std::int32_t request = waiting_.front();
    const std::int64_t hit = hit_blocks(request);
    const std::int64_t found = hit * (prefixes_ != nullptr ? prefixes_->block_tokens : 0);
    const std::int64_t rest = prompt_of(request) - found;
    const std::int64_t n = chunk_vllm(rest, budget);
    if (!options_.chunked_prefill && n < rest) {
      return;
    }
    const std::int64_t blocks = options_.kv_blocks_per_request + kv_.blocks_for(found + n) - kv_.blocks_for(found);
    if (!kv_.has_room(blocks + kv_.newly_used(path_of(request).first(static_cast<std::size_t>(hit))))) {
      head_refused_ = true;
      return;
    }
    waiting_.pop();
    Active& a = admit(request, hit, now);
    partial_.push_back(request);
    add_chunk(request, a, n);
    budget -= n;
  }
}

}  // namespace epsim
