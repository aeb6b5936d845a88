// Requests that come to a rank, or leave it, between prompt and decode.
//
//   Source : sgl-project/sglang v0.4.8 disaggregation/decode.py: DecodePreallocQueue (memory for the prompt beside
//            num_reserved_decode_tokens, 512, of every running request and of this one; retracted requests first, from
//            host memory); disaggregation/prefill.py: a request's memory is freed when its transfer has ended.
//   Differs: a request that finds the rank idle always enters.
#include <utility>

#include "sim/core/check.h"
#include "sim/serving/dp_rank.h"

namespace epsim {

std::vector<std::int32_t> DpRank::take_handed_over() { return std::exchange(handed_over_, {}); }

void DpRank::release_handed_over(std::int32_t request) {
  const auto entry = active_.find(request);
  const Active a = entry->second;
  EPSIM_CHECK(std::erase(in_transfer_, request) == 1, "only a prompt that was handed over can be released");
  if (const std::int64_t own = own_blocks(request, a, a.done); own > 0) {
    kv_.release(own);
  }
  kv_.take_back(path_of(request).first(static_cast<std::size_t>(a.lent)));
  counts_.dropped_prompt_tokens += a.done;
  active_.erase(entry);
  const RequestRecord& r = record(request);
  outstanding_tokens_ -= std::int64_t{r.input_tokens} + r.output_tokens;
  full_ = false;
}

void DpRank::enqueue_remote(std::int32_t request) {
  remote_.push(request);
  const RequestRecord& r = record(request);
  outstanding_tokens_ += std::int64_t{r.input_tokens} + r.output_tokens;
}

// Whether a request with this many cached tokens may come here.
bool DpRank::remote_fits(std::int32_t request, std::int64_t context) const {
  if (options_.max_running_requests > 0 && running() >= options_.max_running_requests) {
    return false;
  }
  if (active_.empty()) {
    return true;
  }
  if (reserves_all()) {
    return kv_.has_room(whole_need(request, 0));
  }
  const std::int64_t kept = options_.loop == SchedulerLoop::kSglang ? options_.reserved_decode_tokens : 0;
  return kv_.has_room(kv_.blocks_for(context + kept * (running() + 1)));
}

std::optional<std::int32_t> DpRank::admit_remote() {
  while (!remote_.empty()) {
    const std::int32_t request = remote_.front();
    const auto resumed = resumed_.find(request);
    const bool on_host = resumed != resumed_.end();
    Active a;
    a.generated = on_host ? resumed->second.generated : 0;
    a.prompt = a.done = record(request).input_tokens + (on_host ? a.generated - 1 : 0);
    if (!remote_fits(request, a.done)) {
      return std::nullopt;
    }
    remote_.pop();
    a.order = admissions_++;
    counts_.received_tokens += a.done;
    kv_.reserve(own_blocks(request, a, a.done));
    active_.emplace(request, a);
    if (!on_host) {
      in_transfer_.push_back(request);
      return request;
    }
    resume_from_host(request);
  }
  return std::nullopt;
}

void DpRank::resume_from_host(std::int32_t request) {
  RequestRecord& r = record(request);
  const Resumed left_behind = resumed_.at(request);
  resumed_.erase(request);
  r.state = RequestState::kRunning;
  joining_.push_back(
      {request, active_.at(request).done, r.output_tokens - left_behind.generated, left_behind.last_token});
}

void DpRank::receive(std::int32_t request, Ticks now) {
  EPSIM_CHECK(std::erase(in_transfer_, request) == 1, "only a prompt on its way can arrive");
  RequestRecord& r = record(request);
  r.first_token = now;
  joining_.push_back({request, r.input_tokens, std::int64_t{r.output_tokens} - 1, now});
}

}  // namespace epsim
