// The scheduler of one DP rank: which waiting requests enter, which chunk of which prompt and which decodes make up a
// step's batch, and whose KV memory is taken back when it runs short. The engines differ in begin_step() alone:
//
//   SGLang (dp_rank_sglang.cpp)  prompts first, a step of decodes only when there is no prompt to work on (or both,
//                                with mixed chunks); requests enter on an estimate of what the running ones will still
//                                need, and some are retracted when the estimate fails
//   vLLM V1 (dp_rank_vllm.cpp)   decodes first, then prompts, out of one token budget; requests enter while blocks are
//                                free, and the latest are preempted when they run out
//
// On instances that prefill only or decode only, a request comes and goes in the middle (dp_rank_transfer.cpp). A
// retracted request of an SGLang decode instance keeps its keys and values in host memory and goes on from there; the
// copies take no time here.
//
// Common to all: continuous batching, chunked prefill, paged KV memory with a prefix cache (kv_pool.h). The step that
// ends a request's prompt yields a token. A request that lost its memory waits again; its prompt is then all that it
// had, input and generated tokens, less what the prefix cache still holds.
//   Ignores: rejection of requests by queue length, priorities, LoRA, multi-modal input; the one decode step too many
//            that overlapped scheduling runs for a request whose end it learns late.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/domain/request_trace.h"
#include "sim/domain/step.h"
#include "sim/scenario/serving_options.h"
#include "sim/scheduler/decode_set.h"
#include "sim/scheduler/gap_samples.h"
#include "sim/scheduler/kv_pool.h"
#include "sim/scheduler/request_queue.h"
#include "sim/scheduler/request_record.h"

namespace epsim {

class DpRank {
 public:
  // `records` is the table of all requests of the run; the rank writes the times and states of those routed to it.
  // `prefixes`: null when the trace names no prefix blocks. Both must outlive the rank.
  // `number`: the rank's among all of the run, which names its random draws.
  DpRank(const ServingOptions& options, std::span<RequestRecord> records, const PrefixBlocks* prefixes = nullptr,
         std::int32_t number = 0);

  void enqueue(std::int32_t request);
  bool has_work() const { return !active_.empty() || !waiting_.empty(); }

  // Of a prefill instance: the prompts that ended since the last call. They hold their memory until they are released.
  std::vector<std::int32_t> take_handed_over();
  void release_handed_over(std::int32_t request);
  // Of a decode instance: a request whose prompt was computed elsewhere queues for memory; admit_remote() sets it aside
  // for the first in the queue if it can; receive() ends the transfer, and the request decodes from the next step on.
  void enqueue_remote(std::int32_t request);
  std::optional<std::int32_t> admit_remote();
  void receive(std::int32_t request, Ticks now);

  // A request leaves without an answer, between steps or while it is in transfer: its memory is free, and what it had
  // generated is lost. die(): the rank is gone; the requests that were routed here, by number. revive(): it is
  // back, as empty as at the start.
  void drop(std::int32_t request);
  std::vector<std::int32_t> die();
  void revive();
  bool alive() const { return alive_; }

  // Forms the batch of the step that starts now; all zero when the rank has nothing to do, or nothing until a transfer
  // has ended.
  const RankBatch& begin_step(Ticks now);
  // The step has ended: hands out its tokens and the gaps between them. Returns how many requests ended with it.
  std::int64_t end_step(Ticks now, GapSamples& gaps);
  // The whole instance is idle.
  void on_idle() { new_token_ratio_ = options_.admission.init_ratio; }

  // Input and output tokens of the requests that were routed here and have not ended.
  std::int64_t outstanding_tokens() const { return outstanding_tokens_; }
  // Whether the request at the head of the queue waits for KV blocks.
  bool head_lacks_blocks() const;
  const KvPool& kv() const { return kv_; }
  // Requests that hold KV memory here. One whose keys and values are on their way counts where they come from.
  std::int64_t running_requests() const {
    return running() - (options_.role == InstanceRole::kDecode ? std::ssize(in_transfer_) : 0);
  }
  double new_token_ratio() const { return new_token_ratio_; }
  // Tokens of a request's input that the prefix cache holds.
  std::int64_t cached_tokens(std::int32_t request) const;
  std::int32_t input_tokens(std::int32_t request) const { return record(request).input_tokens; }

  // What the rank has counted, for the figures of the run and for the audit.
  struct Counts {
    std::int64_t lookup_tokens = 0;      // input tokens of requests when they were first admitted
    std::int64_t hit_tokens = 0;         // of these, found in the prefix cache
    std::int64_t rehit_tokens = 0;       // found there when a request was admitted again
    std::int64_t retractions = 0;        // requests that lost their memory
    std::int64_t recomputed_tokens = 0;  // whose keys and values were computed once more because of that
    std::int64_t prompt_ends = 0;        // prompts finished, each with a token
    // Prompt tokens of lives that retraction ended, and those that completed requests had generated before.
    std::int64_t dropped_prompt_tokens = 0, resumed_tokens = 0;
    std::int64_t received_tokens = 0;  // prompt tokens in KV memory that were computed elsewhere
    std::int64_t rejected_tokens = 0;  // decode tokens that speculation put into batches in vain
    // Tokens that requests had generated when they were dropped, and the gaps between these.
    std::int64_t lost_tokens = 0, lost_gaps = 0;
  };
  const Counts& counts() const { return counts_; }

  // What steps have done so far for requests that have not ended.
  struct UnfinishedWork {
    std::int64_t prompt_tokens = 0;  // computed, or found in the prefix cache
    std::int64_t output_tokens = 0;  // generated
    std::int64_t gaps = 0;           // between them
    std::int64_t kv_blocks = 0;      // of their own, not lent by the prefix cache
  };
  UnfinishedWork unfinished() const;

 private:
  // A request that holds KV memory.
  struct Active {
    std::int64_t prompt = 0;     // tokens to compute before the next one is sampled: input, and what it had generated
    std::int64_t done = 0;       // of these, in KV memory, found ones included
    std::int64_t lent = 0;       // prefix blocks in use from the cache
    std::int32_t generated = 0;  // tokens when it was admitted
    std::int64_t order = 0;      // of admission on this rank
    std::int64_t known = 0;      // leading tokens whose keys and values had been computed before a retraction
  };
  // What a retracted request keeps.
  struct Resumed {
    std::int32_t generated = 0;
    Ticks last_token{};
    std::int64_t computed = 0;  // tokens in KV memory when it was retracted
  };
  // What is left of a step's budgets for prompts.
  struct Budget {
    std::int64_t chunk, input;
    double promised = 0;  // tokens that running requests and those of this step are expected to generate
    std::int64_t entered = 0;
  };
  enum class Entry { kNext, kStop, kNoMemory };

  RequestRecord& record(std::int32_t request) { return records_[static_cast<std::size_t>(request)]; }
  const RequestRecord& record(std::int32_t request) const { return records_[static_cast<std::size_t>(request)]; }
  std::span<const std::int32_t> path_of(std::int32_t request) const;
  std::int64_t running() const { return static_cast<std::int64_t>(active_.size()); }
  std::int64_t prompt_of(std::int32_t request) const;
  std::int64_t hit_blocks(std::int32_t request) const;

  // KV memory.
  bool reserves_all() const { return options_.admission.rule == AdmissionRule::kReserveFull; }
  std::int64_t own_blocks(std::int32_t request, const Active& a, std::int64_t tokens) const;
  std::int64_t whole_need(std::int32_t request, std::int64_t hit) const;
  std::int64_t room_tokens(const Active& a) const;
  void grow(const Active& a, std::int64_t tokens);
  void publish(std::int32_t request, Active& a);

  // Life of a request.
  bool remote_fits(std::int32_t request, std::int64_t context) const;
  void resume_from_host(std::int32_t request);
  Active& admit(std::int32_t request, std::int64_t hit, Ticks now);
  void add_chunk(std::int32_t request, Active& a, std::int64_t tokens);
  void finish(std::int32_t request, Ticks now);
  Resumed suspend(std::int32_t request);
  void retract(std::int32_t request, bool to_front);
  std::int32_t give_up(std::int32_t request);
  void forget(std::int32_t request, const Active& a, std::int64_t held);
  void end_prompt(std::int32_t request, Ticks now, GapSamples& gaps);
  void add_decodes();
  bool reserve_decodes();

  // SGLang.
  void begin_sglang(Ticks now);
  void add_prompts_sglang(Ticks now);
  void continue_prompt(Budget& budget);
  void charge(Budget& budget, std::int32_t request, std::int64_t tokens, bool ends);
  void order_queue();
  Entry enter_head(Budget& budget, Ticks now);
  bool fits_estimate(std::int32_t request, std::int64_t hit, const Budget& budget) const;
  Entry take_head(Budget& budget, std::int64_t hit, Ticks now);
  double room_left(const Budget& budget) const;
  bool secure_decodes();
  void retract_decodes();

  // vLLM.
  void begin_vllm(Ticks now);
  bool preempt_for_decodes();
  bool continue_prompts_vllm(std::int64_t& budget);
  void enter_waiting_vllm(std::int64_t& budget, Ticks now);
  std::optional<std::int32_t> latest() const;
  std::int64_t chunk_vllm(std::int64_t rest, std::int64_t budget) const;

  ServingOptions options_;
  std::span<RequestRecord> records_;
  const PrefixBlocks* prefixes_;
  KvPool kv_;
  RequestQueue waiting_;
  std::unordered_map<std::int32_t, Active> active_;
  std::unordered_map<std::int32_t, Resumed> resumed_;
  std::vector<std::int32_t> partial_;      // admitted, prompt not ended, in order of admission
  RequestQueue remote_;                    // of a decode instance: prompts that wait for memory here
  std::vector<std::int32_t> in_transfer_;  // hold memory, and neither compute nor decode
  std::vector<std::int32_t> handed_over_;  // of these, not yet taken
  std::vector<Decodes::Member> joining_;   // decode from the next step on
  std::vector<std::int32_t> chunks_;       // prompts that the step under way works on
  std::vector<std::int32_t> prompt_ends_;  // of these, the ones that end with it
  std::vector<std::int32_t> finished_;     // scratch of end_step
  std::unique_ptr<Decodes> decodes_;
  RankBatch batch_;
  std::int64_t outstanding_tokens_ = 0, admissions_ = 0;
  double new_token_ratio_;
  bool alive_ = true;
  bool full_ = false;          // nothing enters until a running request leaves
  bool head_refused_ = false;  // the head of the queue lacked memory in this step
  Counts counts_;
};

}  // namespace epsim
