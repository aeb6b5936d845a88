// Requests that come to a scheduler, or leave it, between prompt and decode, and what happens when its rank is lost. A
// request that was retracted to host memory resumes from there; the copies take no time here.
//
//   Source : sgl-project/sglang v0.4.8 disaggregation/decode.py: DecodePreallocQueue (memory for the prompt beside
//            num_reserved_decode_tokens, 512, of every running request and of this one; retracted requests first, from
//            host memory; once an iteration of its loop); disaggregation/prefill.py: a request's memory is freed when its transfer has ended; what has
//            been computed of a prompt goes out when the host has seen it (process_prefill_chunk, send_kv_chunk); the
//            decode instance hands out the first token, when its loop finds that the transfer has ended
//            (event_loop_overlap_disagg_decode: stream_output of the batch of prompts that have come). A request of one
//            token travels, too, and ends then: v0.5.9 process_batch_result_prebuilt; TensorRT-LLM's server asks for
//            a generation after any answer that ended by its length (openai_disagg_service.py, _need_gen).
//            vLLM v0.10 v1/core/sched/scheduler.py (_update_waiting_for_remote_kvs: of a prompt that has come whole one
//            token less counts as computed, and its blocks are cached), nixl_connector.py (get_num_new_matched_tokens: what
//            the cache holds does not come again; TensorRT-LLM's getBlockRangeForReceiving likewise), and its proxies, which ask the prefill server for one token and drop it.
//   Differs: a request that finds the rank idle always enters. A step that samples again checks proposed tokens, too.
#include <algorithm>
#include <utility>

#include "sim/core/check.h"
#include "sim/scheduler/scheduler.h"

namespace epsim {

std::vector<std::int32_t> Scheduler::take_handed_over() { return std::exchange(handed_over_, {}); }

std::vector<Scheduler::PromptPart> Scheduler::take_parts() { return std::exchange(parts_, {}); }

void Scheduler::release_handed_over(std::int32_t request) {
  EPSIM_CHECK(std::erase(in_transfer_, request) == 1, "only a prompt that was handed over can be released");
  const Active a = active_.at(request);
  forget(request, a, a.done);
  own_paths_.erase(request);
  count_unfinished(request, -1);
  ++departures_;
}

void Scheduler::enqueue_remote(std::int32_t request, bool at_once) {
  if (at_once) {
    remote_.push_back(request);
  } else {
    unheard_.push_back(request);
  }
  count_unfinished(request, 1);
}

// Whether a request with this many tokens in KV memory, of which the prefix cache has `hit` blocks, may come here.
bool Scheduler::remote_fits(std::int32_t request, std::int64_t context, std::int64_t hit) const {
  if (at_request_limit()) {
    return false;
  }
  if (active_.empty()) {
    return true;
  }
  if (rules_.reserve_full) {
    return kv_.has_room(whole_need(request, hit));
  }
  const std::int64_t kept = rules_.reserved_decode_tokens * (std::ssize(active_) + 1);
  return kv_.has_room(options_.kv_blocks_per_request + kv_.blocks_for(context + kept) -
                      hit * kv_.pages_per_prefix_block() + newly_used(request, hit));
}

std::optional<std::int32_t> Scheduler::admit_remote() {
  while (!remote_.empty()) {
    const std::int32_t request = remote_.front();
    const auto resumed = resumed_.find(request);
    const bool on_host = resumed != resumed_.end();
    Active a;
    a.generated = on_host ? resumed->second.generated : 0;
    a.prompt = a.done = record(request).input_tokens + (on_host ? a.generated - 1 : 0) - (rules_.samples_again ? 1 : 0);
    const std::int64_t hit = hit_blocks(request);
    if (!remote_fits(request, a.done, hit)) {
      return std::nullopt;
    }
    remote_.pop_front();
    a.order = admissions_++;
    a.lent = hit;
    kv_.lend(path_of(request, hit));
    counts_.received_tokens += a.done;
    if (const std::int64_t own = own_blocks(request, a, a.done); own > 0) {
      kv_.reserve(own);
    }
    active_.emplace(request, a);
    if (!on_host) {
      in_transfer_.push_back(request);
      return request;
    }
    resume_from_host(request);
  }
  return std::nullopt;
}

void Scheduler::resume_from_host(std::int32_t request) {
  RequestRecord& r = mutable_record(request);
  const Resumed left_behind = resumed_.at(request);
  resumed_.erase(request);
  r.state = RequestState::kRunning;
  joining_.push_back(
      {request, r.output_tokens - left_behind.generated, active_.at(request).done, left_behind.last_token});
}

void Scheduler::receive(std::int32_t request, Ticks now) {
  EPSIM_CHECK(std::erase(in_transfer_, request) == 1, "only a prompt on its way can arrive");
  RequestRecord& r = mutable_record(request);
  Active& a = active_.at(request);
  publish(request, a, a.done);
  if (rules_.samples_again) {
    ++counts_.overrun_tokens;
    joining_.push_back(
        {.request = request, .left = r.output_tokens, .context = a.done, .last_token = {}, .fresh = true});
    return;
  }
  r.first_token = options_.overlap_schedule || r.output_tokens == 1 ? Ticks{} : now;
  joining_.push_back({request, r.output_tokens - 1, r.input_tokens, now});
}

// Takes the request's memory back wherever it is in its life here; the tokens that it had generated.
std::int32_t Scheduler::give_up(std::int32_t request) {
  const auto resumed = resumed_.find(request);
  const std::int32_t before = resumed != resumed_.end() ? resumed->second.generated : 0;
  const auto entry = active_.find(request);
  if (entry == active_.end()) {
    std::erase(waiting_, request);
    std::erase(remote_, request);
    std::erase(unseen_, request);
    std::erase(unheard_, request);
    own_paths_.erase(request);
    return before;
  }
  const Active a = entry->second;
  if (std::erase(in_transfer_, request) > 0) {
    std::erase(handed_over_, request);
    forget(request, a, a.done);
    own_paths_.erase(request);
    return options_.role == InstanceRole::kPrefill ? 1 : 0;  // counted where the token was made
  }
  const std::int32_t generated = suspend(request, false).generated;
  own_paths_.erase(request);
  return generated;
}

std::optional<DecodeSet::Member> Scheduler::take_joining(std::int32_t request) {
  const auto joining = std::find_if(joining_.begin(), joining_.end(),
                                    [request](const DecodeSet::Member& m) { return m.request == request; });
  if (joining == joining_.end()) {
    return std::nullopt;
  }
  const DecodeSet::Member out = *joining;
  joinable_ -= joining - joining_.begin() < static_cast<std::ptrdiff_t>(joinable_) ? 1 : 0;
  joining_.erase(joining);
  return out;
}

void Scheduler::drop(std::int32_t request) {
  const std::int32_t generated = give_up(request);
  resumed_.erase(request);
  counts_.lost_tokens += generated;
  counts_.lost_gaps += std::max(0, generated - 1);
  count_unfinished(request, -1);
  ++departures_;
}

std::vector<std::int32_t> Scheduler::die() {
  std::vector<std::int32_t> out;
  out.insert(out.end(), waiting_.begin(), waiting_.end());
  out.insert(out.end(), remote_.begin(), remote_.end());
  out.insert(out.end(), unseen_.begin(), unseen_.end());
  out.insert(out.end(), unheard_.begin(), unheard_.end());
  for (const auto& [request, a] : active_) {
    out.push_back(request);
  }
  std::sort(out.begin(), out.end());
  for (const std::int32_t request : out) {
    drop(request);
  }
  computed_.clear();
  parts_.clear();
  EPSIM_CHECK(kv_.used() == 0 && unfinished_input_ == 0, "a lost rank holds no blocks");
  kv_.forget_prefixes();
  alive_ = false;
  return out;
}

void Scheduler::revive() {
  EPSIM_CHECK(!alive_ && !has_work(), "only a lost rank can return");
  alive_ = true;
  head_lacks_blocks_ = false;
  ++departures_;
  on_idle();
}

}  // namespace epsim
