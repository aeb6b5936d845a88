// The scheduler of one DP rank: which waiting requests enter, which chunk of which prompt and which decodes make up a
// step's batch, and whose KV memory is taken back when it runs short.
//
// An engine derives its rules from Scheduler and overrides form_batch() (sglang.cpp, vllm.cpp; engines.h makes them). Common
// to all: continuous batching, chunked prefill, paged KV memory with a prefix cache (kv_pool.h). The step that ends a
// request's prompt yields a token. A request that lost its memory waits again; its prompt is then all that it had,
// input and generated tokens, less what the prefix cache still holds. On instances that prefill only or decode only, a
// request comes and goes in the middle (scheduler_transfers.cpp).
//
// Where the schedule overlaps (ServingOptions::overlap_schedule), a batch is put together before the tokens of the step
// before are handed out, and of what has arrived only what take_in() has seen: a sequence that got its last token decodes
// once more, and a request that is retracted meanwhile makes its latest token again. The instance keeps the times.
//   Ignores: rejection of requests by queue length, priorities, LoRA, multi-modal input; that the page of a decode too
//            many is free a step later than its request's others, and prefix blocks are there to share a step later.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/domain/request_trace.h"
#include "sim/domain/step.h"
#include "sim/scheduler/decode_set.h"
#include "sim/scheduler/gap_samples.h"
#include "sim/scheduler/kv_pool.h"
#include "sim/scheduler/request_record.h"
#include "sim/scheduler/serving_options.h"

namespace epsim {

// What the scheduler of one DP rank gets from its run.
struct RankContext {
  // The table of all requests of the run; the scheduler writes the times and states of those routed to it.
  RequestRecords& records;
  // Null when the trace names no prefix blocks. Outlives the scheduler, as the records do.
  const PrefixBlocks* prefixes = nullptr;
  std::int32_t rank = 0;  // among all DP ranks of the run; names its random draws
  // Gets the requests that have ended here; null where nobody asks.
  std::vector<std::int32_t>* ended = nullptr;
};

// The unfinished requests of a rank or of an instance, for routers.
struct RankLoad {
  std::int64_t waiting = 0;  // requests that hold no KV memory here
  std::int64_t running = 0;  // those that do
  std::int64_t input_tokens = 0, output_tokens = 0;
  std::int64_t coming = 0;  // of those that run, prompts of a decode instance that others compute or send
  std::int64_t requests() const { return waiting + running; }
  RankLoad& operator+=(const RankLoad& other);
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  void enqueue(std::int32_t request);
  bool has_work() const { return !active_.empty() || !waiting_.empty() || !unseen_.empty() || !unheard_.empty(); }
  // What has come so far is there for the next batch: prompts from elsewhere, whose first token is out now, and new requests
  // where the scheduler `receives` any. Where the schedule does not overlap, and no interval keeps requests back, it always
  // is. Returns how many of the prompts end with that token.
  std::int64_t take_in(Ticks now, bool receives);
  // Some request is known here that has not ended.
  bool busy() const { return !active_.empty() || !waiting_.empty() || !remote_.empty(); }

  // Of a prefill instance whose prompts have memory elsewhere: those under way of which more has been computed since the last call, and
  // their tokens in KV memory.
  struct PromptPart {
    std::int32_t request;
    std::int64_t tokens;
  };
  std::vector<PromptPart> take_parts();
  // Of a prefill instance: the prompts that ended since the last call. They hold their memory until they are released.
  std::vector<std::int32_t> take_handed_over();
  void release_handed_over(std::int32_t request);
  // Of a decode instance: a request whose prompt others compute queues for memory, at once or when it is taken in, between steps;
  // admit_remote() sets it aside for the first in the queue if it can; receive() ends the transfer, and the request decodes
  // from the next step on.
  void enqueue_remote(std::int32_t request, bool at_once);
  std::optional<std::int32_t> admit_remote();
  // Of a request that holds memory here: the tokens of its prompt that the prefix cache has lent it.
  std::int64_t lent_tokens(std::int32_t request) const { return tokens_of_hit(active_.at(request).lent); }
  void receive(std::int32_t request, Ticks now);

  // A request leaves without an answer, between steps or while it is in transfer: its memory is free, and what it had
  // generated is lost. die(): the rank is gone; the requests that were routed here, by number. revive(): it is
  // back, as empty as at the start.
  void drop(std::int32_t request);
  std::vector<std::int32_t> die();
  void revive();
  bool alive() const { return alive_; }

  // What the rank says to the others of its instance before a step.
  PrefillRank prefill_rank() const;
  // Forms the batch of the step that starts now, in two halves, since engines may let decodes idle while another rank of
  // the instance works on a prompt (ServingOptions::decodes_await_prompts). `hold_prompts`: prompts that wait go on
  // waiting (prefill_alignment.h). The batch is all zero when the rank has nothing to do, or nothing until a transfer
  // has ended. `hold_all`: prompts under way wait, too.
  const RankBatch& begin_prompts(Ticks now, bool hold_prompts = false, bool hold_all = false);
  const RankBatch& begin_decodes(bool prompts_elsewhere);
  // Of a rank without others.
  const RankBatch& begin_step(Ticks now, bool hold_prompts = false) {
    begin_prompts(now, hold_prompts);
    return begin_decodes(false);
  }
  // The step has ended. Its tokens are made and not handed out.
  void end_step();
  // Hands out the tokens of the latest step that ended, and the gaps between them; returns how many requests ended with
  // it. A step may have begun since, none may have ended.
  std::int64_t hand_out(Ticks now, GapSamples& gaps);
  // The whole instance is idle.
  virtual void on_idle() {}

  // Whether the head of the queue waited for KV blocks in the latest step.
  bool head_lacks_blocks() const {
    return (head_lacks_blocks_ && !waiting_.empty()) || (!remote_.empty() && !at_request_limit());
  }
  const KvPool& kv() const { return kv_; }
  RankLoad load() const;
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
    // And those of requests whose end, or retraction, was not known yet, or whose first token had been made elsewhere.
    std::int64_t overrun_tokens = 0;
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

 protected:
  // What an engine does its own way with KV memory, and with prompts from elsewhere.
  struct MemoryRules {
    // A request enters with pages for all of its input and output, else it takes pages as it grows.
    bool reserve_full = false;
    // Tokens kept free for each running request before a prompt from elsewhere enters (decode instances).
    std::int64_t reserved_decode_tokens = 0;
    // A prompt that was handed over gives its place in the batch up at once; else when its keys and values have left.
    bool leaves_when_handed_over = false;
    // A decode instance computes the last token of a prompt again, and samples the first of the answer from that.
    bool samples_again = false;
    // A decode instance has a prefix cache, too: of a prompt that it holds in part, only the rest comes.
    bool keeps_received = false;
    // What is computed of a prompt in a step can be shared by requests that enter after it in the same step.
    bool shares_at_once = false;
    // A request that gives its memory back leaves what it has generated in the prefix cache beside its prompt.
    bool leaves_answers = false;
  };
  Scheduler(const ServingOptions& options, const RankContext& context, const MemoryRules& rules);

  // Puts the chunks of the step that starts now into the batch, and the decodes that come first or beside them, by the
  // functions below; then those that wait for prompts. The decisions that are the engine's. Sets head_lacks_blocks_ when
  // the head of the queue waits for KV blocks.
  virtual void form_batch(Ticks now) = 0;
  virtual void form_decodes() {}
  // Whether the rank would look at a request that waits, were it not for other ranks.
  virtual bool could_start_prompt() const { return !waiting_.empty() && !at_request_limit(); }

  // A request that holds KV memory.
  struct Active {
    std::int64_t prompt = 0;     // tokens to compute before the next one is sampled: input, and what it had generated
    std::int64_t done = 0;       // of these, in KV memory, found ones included
    std::int64_t lent = 0;       // prefix blocks in use from the cache
    std::int32_t generated = 0;  // tokens when it was admitted
    std::int64_t order = 0;      // of admission on this rank
    std::int64_t known = 0;      // leading tokens whose keys and values had been computed before a retraction
  };
  // Where a request goes that lost its memory.
  enum class Requeue {
    kFront,
    kBack,
    kHost,  // its keys and values stay in host memory, and it resumes from there (decode instances)
  };

  const ServingOptions& options() const { return options_; }
  const RequestRecord& record(std::int32_t request) const { return records_[static_cast<std::size_t>(request)]; }
  // Tokens to compute before the request's next one is sampled.
  std::int64_t prompt_of(std::int32_t request) const;
  // Prefix blocks of the request that the cache holds, and their tokens.
  std::int64_t hit_blocks(std::int32_t request) const;
  std::int64_t tokens_of_hit(std::int64_t hit) const { return hit * prefix_tokens_; }
  // Pages that come into use when these prefix blocks are lent to the request.
  std::int64_t newly_used(std::int32_t request, std::int64_t hit) const;
  // Pages that come into use when the request enters with all of its input and output reserved.
  std::int64_t whole_need(std::int32_t request, std::int64_t hit) const;
  // Prompt tokens that memory allows for now.
  std::int64_t room_tokens(const Active& a) const;
  // Requests that count against what the engine admits.
  std::int64_t admitted() const {
    const bool handed_over = rules_.leaves_when_handed_over && options_.role == InstanceRole::kPrefill;
    return std::ssize(active_) - (handed_over ? std::ssize(in_transfer_) : 0);
  }
  bool at_request_limit() const {
    return options_.max_running_requests > 0 && admitted() >= options_.max_running_requests;
  }

  // The head of the queue enters, with `hit` prefix blocks from the cache; its prompt is under way.
  Active& admit_head(std::int64_t hit, Ticks now);
  // Puts the next `tokens` tokens of a prompt into the batch.
  void add_chunk(std::int32_t request, Active& a, std::int64_t tokens);
  // Sets pages aside for the tokens that the decodes of this step make; false when there are too few.
  bool reserve_decodes();
  // Puts all decodes into the batch.
  void add_decodes();
  // Takes a request's memory back.
  void retract(std::int32_t request, Requeue to);

  Active& active(std::int32_t request) { return active_.at(request); }
  const std::unordered_map<std::int32_t, Active>& active() const { return active_; }
  const std::vector<std::int32_t>& partial() const { return partial_; }
  // Holds memory here, and is on its way, or has come and is not taken in.
  bool comes(std::int32_t request) const;
  bool prompts_come() const { return !in_transfer_.empty() || !joining_.empty(); }
  std::optional<std::int32_t> last_joining() const {
    return joining_.empty() ? std::nullopt : std::optional(joining_.back().request);
  }
  const DecodeSet& decodes() const { return decodes_; }
  const RankBatch& batch() const { return batch_; }
  // Requests that have given their memory back so far.
  std::int64_t departures() const { return departures_; }
  bool caches_prefixes() const { return prefixes_ != nullptr || !own_paths_.empty(); }

  std::deque<std::int32_t> waiting_;
  bool head_lacks_blocks_ = false;  // the head of the queue lacked memory in this step
  bool hold_prompts_ = false;       // of the step that is formed
  bool hold_all_ = false;

 private:
  // What a retracted request keeps.
  struct Resumed {
    std::int32_t generated = 0;
    Ticks last_token{};
    std::int64_t computed = 0;  // tokens in KV memory when it was retracted
  };

  RequestRecord& mutable_record(std::int32_t request) { return records_[static_cast<std::size_t>(request)]; }
  std::span<const std::int32_t> path_of(std::int32_t request) const;
  std::span<const std::int32_t> path_of(std::int32_t request, std::int64_t blocks) const {
    return path_of(request).first(static_cast<std::size_t>(blocks));
  }

  // KV memory.
  std::int64_t tokens_to_hold(std::int32_t request) const;  // at most
  std::int64_t own_blocks(std::int32_t request, const Active& a, std::int64_t tokens) const;
  void count_unfinished(std::int32_t request, std::int64_t change);  // 1 or -1
  void grow(const Active& a, std::int64_t tokens);
  void publish(std::int32_t request, Active& a, std::int64_t tokens);
  void leave_in_cache(std::int32_t request, Active& a, std::int64_t tokens);

  // Life of a request.
  bool remote_fits(std::int32_t request, std::int64_t context, std::int64_t hit) const;
  void resume_from_host(std::int32_t request);
  void finish(std::int32_t request, Ticks now);
  Resumed suspend(std::int32_t request, bool leaves);
  std::int32_t give_up(std::int32_t request);
  std::optional<DecodeSet::Member> take_joining(std::int32_t request);
  void forget(std::int32_t request, const Active& a, std::int64_t held);
  void end_prompt(std::int32_t request);

  ServingOptions options_;
  MemoryRules rules_;
  RequestRecords& records_;
  const PrefixBlocks* prefixes_;
  std::int64_t prefix_tokens_;  // of a block of the prefix cache; 0: there is none
  // Where the trace names no prefixes: blocks of requests that gave their memory back, under ids of this rank's own. Such a request
  // finds again what of them nobody has taken.
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> own_paths_;
  std::int32_t own_ids_ = 0;
  std::vector<std::int32_t>* ended_requests_;  // RankContext::ended
  KvPool kv_;
  std::unordered_map<std::int32_t, Active> active_;
  std::unordered_map<std::int32_t, Resumed> resumed_;
  std::vector<std::int32_t> partial_;       // admitted, prompt not ended, in order of admission
  std::deque<std::int32_t> remote_;         // of a decode instance: prompts that wait for memory here
  std::vector<std::int32_t> in_transfer_;   // hold memory, and neither compute nor decode
  std::vector<std::int32_t> handed_over_;   // of these, not yet taken
  std::vector<std::int32_t> unseen_;        // arrived, not taken in
  std::vector<std::int32_t> unheard_;       // likewise, of those whose prompt was computed elsewhere
  std::vector<DecodeSet::Member> joining_;  // decode from the next step on
  std::size_t joinable_ = 0;                // so many of them: the others are not taken in
  std::vector<std::int32_t> chunks_;        // prompts that the step under way works on
  std::vector<std::int32_t> prompt_ends_;   // of these, the ones that end with it
  std::vector<std::int32_t> ended_;         // of a prefill instance: prompts whose token is not handed out
  std::vector<PromptPart> computed_;        // likewise: what a step has computed of others, and the host has not seen
  std::vector<PromptPart> parts_;           // seen, and not yet taken
  DecodeSet::Handed handed_;                // scratch of hand_out
  DecodeSet decodes_;
  RankBatch batch_;
  std::int64_t unfinished_input_ = 0, unfinished_output_ = 0;  // tokens
  std::int64_t admissions_ = 0, departures_ = 0;
  bool alive_ = true;
  Counts counts_;
};

}  // namespace epsim
