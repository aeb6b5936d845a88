// The scheduler of one DP rank: a first-come-first-served queue, chunked prefill, continuous batching and a KV pool.
//
// A step's batch is one token for each running request plus prompt chunks up to the token budget. The request that was
// cut off by the budget goes on first in the next step; then requests are admitted from the head of the queue while
// budget, `max_running_requests` and KV blocks last. A head that lacks blocks holds up everyone behind it. The step
// that ends a request's prompt yields its first token.
//
//   Source : SGLang 0.4.8's scheduler loop with chunked prefill, as described by its documentation.
//   Ignores: prefix reuse, retraction, rounding of chunks to whole pages, max_prefill_tokens (it is never below the
//            chunk size in that engine's defaults).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/domain/step.h"
#include "sim/serving/decode_set.h"
#include "sim/serving/gap_samples.h"
#include "sim/serving/kv_pool.h"
#include "sim/serving/request_queue.h"
#include "sim/serving/run_result.h"
#include "sim/serving/serving_options.h"

namespace epsim {

class DpRank {
 public:
  // `records` is the table of all requests of the run; the rank writes the times and states of those routed to it. It
  // must outlive the rank.
  DpRank(const ServingOptions& options, std::span<RequestRecord> records);

  void enqueue(std::int32_t request);
  bool has_work() const { return partial_.has_value() || decodes_.size() > 0 || !waiting_.empty(); }

  // Forms the batch of the step that starts now; all zero when the rank has nothing to do.
  const RankBatch& begin_step(Ticks now);
  // The step has ended: hands out its tokens and the gaps between them. Returns how many requests ended with it.
  std::int64_t end_step(Ticks now, GapSamples& gaps);

  // Input and output tokens of the requests that were routed here and have not ended.
  std::int64_t outstanding_tokens() const { return outstanding_tokens_; }
  // Whether the request at the head of the queue waits for KV blocks.
  bool head_lacks_blocks() const;
  const KvPool& kv() const { return kv_; }

  // What steps have done so far for requests that have not ended.
  struct UnfinishedWork {
    std::int64_t prefill_tokens = 0, decode_tokens = 0, kv_blocks = 0;
  };
  UnfinishedWork unfinished() const;

 private:
  // A request whose prompt is cut off by a step's budget.
  struct Partial {
    std::int32_t request;
    std::int64_t done;
  };

  RequestRecord& record(std::int32_t request) { return records_[static_cast<std::size_t>(request)]; }
  const RequestRecord& record(std::int32_t request) const { return records_[static_cast<std::size_t>(request)]; }
  std::int64_t blocks_of(std::int32_t request) const;
  std::int64_t running() const;
  bool can_admit_head() const;
  std::int32_t admit_head(Ticks now);
  std::int64_t add_chunk(Partial prompt, std::int64_t budget);
  void add_prefill(Ticks now);
  void add_decodes();
  void finish(std::int32_t request, Ticks now);

  std::int64_t chunk_budget_;
  bool mixed_;
  std::int64_t max_running_;  // 0 = no limit
  std::span<RequestRecord> records_;
  KvPool kv_;
  RequestQueue waiting_;
  std::optional<Partial> partial_;
  std::vector<std::int32_t> prefill_ends_;  // requests whose prompt ends with the step under way
  std::vector<std::int32_t> finished_;      // scratch of end_step
  DecodeSet decodes_;
  RankBatch batch_;
  std::int64_t outstanding_tokens_ = 0;
};

}  // namespace epsim
