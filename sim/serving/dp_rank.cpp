#include "sim/serving/dp_rank.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {
namespace {

std::int64_t tokens_of(const RequestRecord& r) { return std::int64_t{r.input_tokens} + r.output_tokens; }

}  // namespace

DpRank::DpRank(const ServingOptions& options, std::span<RequestRecord> records)
    : chunk_budget_(options.chunked_prefill_size),
      mixed_(options.mixed_chunk),
      max_running_(options.max_running_requests),
      records_(records),
      kv_(options.kv_blocks, options.kv_block_tokens) {
  EPSIM_CHECK(chunk_budget_ > 0 && max_running_ >= 0, "a rank must be allowed to work");
}

std::int64_t DpRank::blocks_of(std::int32_t request) const { return kv_.blocks_for(tokens_of(record(request))); }

void DpRank::enqueue(std::int32_t request) {
  waiting_.push(request);
  outstanding_tokens_ += tokens_of(record(request));
}

bool DpRank::head_lacks_blocks() const { return !waiting_.empty() && !kv_.has_room(blocks_of(waiting_.front())); }

// Asked only while budget is left, when no prompt is cut off: a request that goes on in the next step took all of it.
std::int64_t DpRank::running() const { return decodes_.size() + static_cast<std::int64_t>(prefill_ends_.size()); }

bool DpRank::can_admit_head() const {
  return !waiting_.empty() && (max_running_ == 0 || running() < max_running_) && !head_lacks_blocks();
}

std::int32_t DpRank::admit_head(Ticks now) {
  const std::int32_t request = waiting_.front();
  waiting_.pop();
  kv_.reserve(blocks_of(request));
  RequestRecord& r = record(request);
  r.state = RequestState::kRunning;
  r.admitted = now;
  return request;
}

// Puts the next chunk of a prompt into the batch; returns its tokens.
std::int64_t DpRank::add_chunk(Partial prompt, std::int64_t budget) {
  const std::int64_t rest = record(prompt.request).input_tokens - prompt.done;
  const std::int64_t n = std::min(rest, budget);
  const auto tokens = static_cast<double>(n);
  const auto context = static_cast<double>(prompt.done);
  batch_.prefill_tokens += n;
  batch_.prefill_pairs += tokens * context + tokens * (tokens + 1) / 2;
  batch_.prefill_context += context;
  if (n == rest) {
    prefill_ends_.push_back(prompt.request);
    ++batch_.sampled;
    partial_.reset();
  } else {
    partial_ = Partial{prompt.request, prompt.done + n};
  }
  return n;
}

void DpRank::add_prefill(Ticks now) {
  std::int64_t budget = chunk_budget_ - (mixed_ ? decodes_.size() : 0);
  if (budget > 0 && partial_) {
    budget -= add_chunk(*partial_, budget);
  }
  while (budget > 0 && can_admit_head()) {
    budget -= add_chunk({admit_head(now), 0}, budget);
  }
}

void DpRank::add_decodes() {
  batch_.decode_tokens = decodes_.size();
  batch_.decode_context = static_cast<double>(decodes_.context());
  batch_.sampled += decodes_.size();
}

const RankBatch& DpRank::begin_step(Ticks now) {
  batch_ = {};
  add_prefill(now);
  if (mixed_ || batch_.prefill_tokens == 0) {
    add_decodes();
  }
  // Nothing running means that all blocks are free, and every request fits an empty pool.
  EPSIM_CHECK(batch_.tokens() > 0 || !has_work(), "a rank with work must make progress");
  return batch_;
}

void DpRank::finish(std::int32_t request, Ticks now) {
  RequestRecord& r = record(request);
  r.state = RequestState::kCompleted;
  r.finished = now;
  kv_.release(blocks_of(request));
  outstanding_tokens_ -= tokens_of(r);
}

std::int64_t DpRank::end_step(Ticks now, GapSamples& gaps) {
  finished_.clear();
  if (batch_.decode_tokens > 0) {
    decodes_.advance(now, gaps, finished_);
  }
  for (const std::int32_t request : prefill_ends_) {
    RequestRecord& r = record(request);
    r.first_token = now;
    if (r.output_tokens == 1) {
      finished_.push_back(request);
    } else {
      decodes_.join(request, r.input_tokens, r.output_tokens - 1, now);
    }
  }
  prefill_ends_.clear();
  for (const std::int32_t request : finished_) {
    finish(request, now);
  }
  return static_cast<std::int64_t>(finished_.size());
}

DpRank::UnfinishedWork DpRank::unfinished() const {
  UnfinishedWork out;
  if (partial_) {
    out.prefill_tokens += partial_->done;
    out.kv_blocks += blocks_of(partial_->request);
  }
  for (const DecodeSet::Member& m : decodes_.members()) {
    out.prefill_tokens += record(m.request).input_tokens;
    out.decode_tokens += record(m.request).output_tokens - 1 - m.left;
    out.kv_blocks += blocks_of(m.request);
  }
  return out;
}

}  // namespace epsim
