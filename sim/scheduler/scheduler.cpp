#include "sim/scheduler/scheduler.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {
namespace {

std::int64_t tokens_of(const RequestRecord& r) { return std::int64_t{r.input_tokens} + r.output_tokens; }

// A block is a page of vLLM's default size at least: smaller pages are taken together.
constexpr std::int64_t kOwnBlockTokens = 16;

bool caches(const ServingOptions& options, bool keeps_received) {
  return options.prefix_caching && (options.role != InstanceRole::kDecode || keeps_received);
}

std::int64_t own_block_tokens(std::int64_t page) { return (kOwnBlockTokens + page - 1) / page * page; }

}  // namespace

Scheduler::Scheduler(const ServingOptions& options, const RankContext& context, const MemoryRules& rules)
    : options_(options),
      rules_(rules),
      records_(context.records),
      prefixes_(caches(options, rules.keeps_received) && context.prefixes != nullptr && context.prefixes->known()
                    ? context.prefixes
                    : nullptr),
      prefix_tokens_(prefixes_ != nullptr                    ? prefixes_->block_tokens
                     : caches(options, rules.keeps_received) ? own_block_tokens(options.kv_block_tokens)
                                                             : 0),
      ended_requests_(context.ended),
      kv_(options.kv_blocks, options.kv_block_tokens, static_cast<int>(prefix_tokens_)),
      decodes_(options.kv_block_tokens, options.speculative, Seed{options.seed}, context.rank) {
  EPSIM_CHECK(options.token_budget > 0 && options.max_running_requests >= 0, "a rank must be allowed to work");
}

std::span<const std::int32_t> Scheduler::path_of(std::int32_t request) const {
  if (prefixes_ != nullptr) {
    return prefixes_->of(static_cast<std::size_t>(request));
  }
  const auto own = own_paths_.find(request);
  return own == own_paths_.end() ? std::span<const std::int32_t>() : own->second;
}

void Scheduler::enqueue(std::int32_t request) {
  if (options_.overlap_schedule || options_.receive_interval > 1) {
    unseen_.push_back(request);
  } else {
    waiting_.push_back(request);
  }
  count_unfinished(request, 1);
}

void Scheduler::count_unfinished(std::int32_t request, std::int64_t change) {
  const RequestRecord& r = record(request);
  unfinished_input_ += change * r.input_tokens;
  unfinished_output_ += change * r.output_tokens;
}

RankLoad& RankLoad::operator+=(const RankLoad& other) {
  waiting += other.waiting;
  running += other.running;
  coming += other.coming;
  input_tokens += other.input_tokens;
  output_tokens += other.output_tokens;
  return *this;
}

RankLoad Scheduler::load() const {
  return {static_cast<std::int64_t>(waiting_.size() + remote_.size() + unseen_.size() + unheard_.size()),
          std::ssize(active_), unfinished_input_, unfinished_output_,
          options_.role == InstanceRole::kDecode ? std::ssize(in_transfer_) : 0};
}

std::int64_t Scheduler::take_in(Ticks now, bool receives) {
  if (receives) {
    waiting_.insert(waiting_.end(), unseen_.begin(), unseen_.end());
    remote_.insert(remote_.end(), unheard_.begin(), unheard_.end());
    unseen_.clear();
    unheard_.clear();
  }
  for (; joinable_ < joining_.size(); ++joinable_) {
    DecodeSet::Member& m = joining_[joinable_];
    if (!m.fresh && record(m.request).first_token == Ticks{}) {
      mutable_record(m.request).first_token = m.last_token = now;
    }
  }
  const auto one_token = [](const DecodeSet::Member& m) { return m.left == 0; };
  for (const DecodeSet::Member& m : joining_) {
    if (one_token(m)) {
      finish(m.request, now);
    }
  }
  const auto ended = static_cast<std::int64_t>(std::erase_if(joining_, one_token));
  joinable_ = joining_.size();
  return ended;
}

std::int64_t Scheduler::prompt_of(std::int32_t request) const {
  const auto resumed = resumed_.find(request);
  return record(request).input_tokens + (resumed != resumed_.end() ? resumed->second.generated : 0);
}

// At least one token of a prompt is computed, since its end yields the next token.
std::int64_t Scheduler::hit_blocks(std::int32_t request) const {
  return caches_prefixes() ? kv_.match(path_of(request), (prompt_of(request) - 1) / prefix_tokens_) : 0;
}

std::int64_t Scheduler::cached_tokens(std::int32_t request) const { return tokens_of_hit(hit_blocks(request)); }

std::int64_t Scheduler::newly_used(std::int32_t request, std::int64_t hit) const {
  return kv_.newly_used(path_of(request, hit));
}

std::int64_t Scheduler::whole_need(std::int32_t request, std::int64_t hit) const {
  return options_.kv_blocks_per_request + kv_.blocks_for(tokens_to_hold(request)) - hit * kv_.pages_per_prefix_block() +
         newly_used(request, hit);
}

// A prefill instance makes one token of an answer and never holds it.
std::int64_t Scheduler::tokens_to_hold(std::int32_t request) const {
  const RequestRecord& r = record(request);
  return options_.role == InstanceRole::kPrefill ? r.input_tokens : tokens_of(r);
}

// Pages that the request holds besides lent ones, with `tokens` tokens in KV memory.
std::int64_t Scheduler::own_blocks(std::int32_t request, const Active& a, std::int64_t tokens) const {
  const std::int64_t held = rules_.reserve_full ? tokens_to_hold(request) : tokens;
  return options_.kv_blocks_per_request + kv_.blocks_for(held) - a.lent * kv_.pages_per_prefix_block();
}

std::int64_t Scheduler::room_tokens(const Active& a) const {
  if (rules_.reserve_full) {
    return a.prompt - a.done;
  }
  return (kv_.blocks_for(a.done) + kv_.room()) * kv_.block_tokens() - a.done;
}

void Scheduler::grow(const Active& a, std::int64_t tokens) {
  const std::int64_t blocks = kv_.blocks_for(a.done + tokens) - kv_.blocks_for(a.done);
  if (!rules_.reserve_full && blocks > 0) {
    kv_.reserve(blocks);
  }
}

Scheduler::Active& Scheduler::admit_head(std::int64_t hit, Ticks now) {
  const std::int32_t request = waiting_.front();
  RequestRecord& r = mutable_record(request);
  Active a;
  a.prompt = prompt_of(request);
  a.lent = hit;
  a.done = tokens_of_hit(hit);
  a.order = admissions_++;
  kv_.lend(path_of(request, hit));
  if (const auto resumed = resumed_.find(request); resumed != resumed_.end()) {
    a.generated = resumed->second.generated;
    a.known = resumed->second.computed;
    counts_.rehit_tokens += a.done;
  } else {
    r.admitted = now;
    if (a.done > 0) {
      records_.make_extras(static_cast<std::size_t>(request)).cached_tokens = static_cast<std::int32_t>(a.done);
    }
    counts_.lookup_tokens += r.input_tokens;
    counts_.hit_tokens += a.done;
  }
  if (rules_.reserve_full) {
    kv_.reserve(own_blocks(request, a, 0));
  } else if (options_.kv_blocks_per_request > 0) {
    kv_.reserve(options_.kv_blocks_per_request);
  }
  r.state = RequestState::kRunning;
  waiting_.pop_front();
  partial_.push_back(request);
  return active_.emplace(request, a).first->second;
}

void Scheduler::add_chunk(std::int32_t request, Active& a, std::int64_t tokens) {
  grow(a, tokens);
  const auto n = static_cast<double>(tokens);
  const auto context = static_cast<double>(a.done);
  batch_.prefill_tokens += tokens;
  batch_.prefill_pairs += n * context + n * (n + 1) / 2;
  batch_.prefill_context += context;
  counts_.recomputed_tokens += std::max<std::int64_t>(0, std::min(a.done + tokens, a.known) - a.done);
  a.done += tokens;
  if (rules_.shares_at_once) {
    publish(request, a, a.done);
  }
  chunks_.push_back(request);
  ++batch_.sequences;
  if (a.done == a.prompt) {
    prompt_ends_.push_back(request);
    ++batch_.sampled;
  }
}

bool Scheduler::reserve_decodes() {
  const std::int64_t blocks = rules_.reserve_full ? 0 : decodes_.pages_to_begin();
  if (!kv_.has_room(blocks)) {
    return false;
  }
  if (blocks > 0) {
    kv_.reserve(blocks);
  }
  return true;
}

void Scheduler::add_decodes() {
  batch_.decode_tokens = decodes_.step_tokens();
  batch_.decode_queries = 1 + options_.speculative.draft_tokens;
  batch_.decode_context = static_cast<double>(decodes_.context());
  batch_.sampled += decodes_.step_tokens();
  batch_.sequences += decodes_.size();
  counts_.overrun_tokens += decodes_.spent() * decodes_.step_tokens_each();
}

PrefillRank Scheduler::prefill_rank() const {
  return {could_start_prompt(), static_cast<double>(kv_.used()) / static_cast<double>(kv_.blocks()),
          decodes_.size() > 0 || !has_work(),
          options_.max_running_requests == 0 || decodes_.size() < options_.max_running_requests};
}

const RankBatch& Scheduler::begin_prompts(Ticks now, bool hold_prompts, bool hold_all) {
  batch_ = {};
  chunks_.clear();
  head_lacks_blocks_ = false;
  hold_prompts_ = hold_prompts;
  hold_all_ = hold_all;
  const auto joined =
      joining_.begin() + (options_.overlap_schedule ? static_cast<std::ptrdiff_t>(joinable_) : std::ssize(joining_));
  std::for_each(joining_.begin(), joined, [this](const DecodeSet::Member& m) { decodes_.join(m); });
  joining_.erase(joining_.begin(), joined);
  joinable_ = 0;
  form_batch(now);
  return batch_;
}

const RankBatch& Scheduler::begin_decodes(bool prompts_elsewhere) {
  const bool idle = options_.decodes_await_prompts && prompts_elsewhere;
  if (!idle) {
    form_decodes();
  }
  // Nothing running means that all blocks are free or evictable, and every request fits an empty pool.
  const bool may_wait = prompts_come() || !ended_.empty() || hold_prompts_ || idle;
  EPSIM_CHECK(batch_.tokens() > 0 || (active_.empty() && waiting_.empty()) || may_wait,
              "a rank with work must make progress");
  return batch_;
}

bool Scheduler::comes(std::int32_t request) const {
  return std::find(in_transfer_.begin(), in_transfer_.end(), request) != in_transfer_.end() ||
         std::any_of(joining_.begin(), joining_.end(),
                     [request](const DecodeSet::Member& m) { return m.request == request; });
}

// Blocks that `tokens` tokens of the request complete become the prefix cache's.
void Scheduler::publish(std::int32_t request, Active& a, std::int64_t tokens) {
  if (!caches_prefixes()) {
    return;
  }
  const auto path = path_of(request);
  const std::int64_t complete = std::min(tokens / prefix_tokens_, std::ssize(path));
  for (; a.lent < complete; ++a.lent) {
    kv_.publish(path[static_cast<std::size_t>(a.lent)]);
  }
}

// The blocks that `tokens` tokens of the request complete are the prefix cache's, under names of their own where the trace has none.
void Scheduler::leave_in_cache(std::int32_t request, Active& a, std::int64_t tokens) {
  if (prefixes_ != nullptr || prefix_tokens_ == 0) {
    return;
  }
  std::vector<std::int32_t>& path = own_paths_[request];
  while (std::ssize(path) < tokens / prefix_tokens_) {
    path.push_back(own_ids_++);
  }
  publish(request, a, tokens);
}

void Scheduler::finish(std::int32_t request, Ticks now) {
  RequestRecord& r = mutable_record(request);
  r.state = RequestState::kCompleted;
  r.finished = now;
  if (ended_requests_ != nullptr) {
    ended_requests_->push_back(request);
  }
  const auto entry = active_.find(request);
  Active& a = entry->second;
  const std::int64_t kept = tokens_of(r) - 1;  // the last token is never put into KV memory
  publish(request, a, kept);
  if (!own_paths_.empty()) {  // memory is taken in the order in which it was given back
    leave_in_cache(request, a, kept);
  }
  if (const std::int64_t own = own_blocks(request, a, kept); own > 0) {
    kv_.release(own);
  }
  kv_.take_back(path_of(request, a.lent));
  own_paths_.erase(request);
  counts_.resumed_tokens += a.done - r.input_tokens;  // of its prompt, what it had generated
  active_.erase(entry);
  count_unfinished(request, -1);
  ++departures_;
}

// Takes a request out, with its memory; what it leaves behind. `leaves`: in the prefix cache, too, for itself.
Scheduler::Resumed Scheduler::suspend(std::int32_t request, bool leaves) {
  const auto entry = active_.find(request);
  Active a = entry->second;
  Resumed out;
  out.generated = a.generated;
  std::int64_t held = a.done;
  if (std::erase(partial_, request) > 0) {
    out.last_token = a.generated > 0 ? resumed_.at(request).last_token : Ticks{};
  } else {
    const std::optional<DecodeSet::Member> joining = take_joining(request);
    const DecodeSet::Member m = joining ? *joining : decodes_.remove(request);
    out.generated = record(request).output_tokens - m.left - m.made;
    counts_.overrun_tokens += m.made - (m.prompt ? 1 : 0);
    held = m.context;
    out.last_token = m.last_token;
  }
  out.computed = std::max(held, a.known);
  if (leaves) {
    leave_in_cache(request, a, rules_.leaves_answers ? held : std::min(held, a.prompt));
  }
  forget(request, a, held);
  return out;
}

// The request, with `held` tokens in KV memory, gives all of its memory back.
void Scheduler::forget(std::int32_t request, const Active& a, std::int64_t held) {
  if (const std::int64_t own = own_blocks(request, a, held); own > 0) {
    kv_.release(own);
  }
  kv_.take_back(path_of(request, a.lent));
  counts_.dropped_prompt_tokens += a.done;
  active_.erase(request);
}

void Scheduler::retract(std::int32_t request, Requeue to) {
  resumed_[request] = suspend(request, to != Requeue::kHost);
  mutable_record(request).state = RequestState::kWaiting;
  ++records_.make_extras(static_cast<std::size_t>(request)).retractions;
  ++counts_.retractions;
  if (to == Requeue::kBack) {
    waiting_.push_back(request);
  } else {
    (to == Requeue::kHost ? remote_ : waiting_).push_front(request);
  }
  ++departures_;
}

// The prompt's end made a token.
void Scheduler::end_prompt(std::int32_t request) {
  std::erase(partial_, request);
  const Active& a = active_.at(request);
  const auto resumed = resumed_.find(request);
  const std::optional<Ticks> last = a.generated > 0 ? std::optional<Ticks>(resumed->second.last_token) : std::nullopt;
  if (resumed != resumed_.end()) {
    resumed_.erase(resumed);
  }
  if (options_.role == InstanceRole::kPrefill) {
    ended_.push_back(request);
  } else {
    decodes_.join_made(request, a.prompt, record(request).output_tokens - a.generated - 1, last);
  }
}

void Scheduler::end_step() {
  if (batch_.decode_tokens > 0) {
    const std::int64_t unused = decodes_.advance();
    if (!rules_.reserve_full && unused > 0) {
      kv_.release(unused);
    }
    counts_.rejected_tokens = decodes_.rejected();
  }
  for (const std::int32_t request : chunks_) {
    Active& a = active_.at(request);
    publish(request, a, a.done);
    if (options_.memory_first && options_.role == InstanceRole::kPrefill && a.done < a.prompt) {
      computed_.push_back({request, a.done});
    }
  }
  std::for_each(prompt_ends_.begin(), prompt_ends_.end(), [this](std::int32_t request) { end_prompt(request); });
  prompt_ends_.clear();
  batch_ = {};
}

std::int64_t Scheduler::hand_out(Ticks now, GapSamples& gaps) {
  handed_.prompts.clear();
  handed_.first.clear();
  handed_.finished.clear();
  const std::int64_t unused = decodes_.hand_out(now, batch_.decode_tokens > 0, gaps, handed_);
  if (!rules_.reserve_full && unused > 0) {
    kv_.release(unused);
  }
  for (const std::int32_t request : handed_.first) {
    mutable_record(request).first_token = now;
  }
  counts_.prompt_ends += std::ssize(handed_.prompts) + std::ssize(ended_);
  parts_.insert(parts_.end(), computed_.begin(), computed_.end());
  computed_.clear();
  for (const std::int32_t request : ended_) {
    in_transfer_.push_back(request);
    handed_over_.push_back(request);
  }
  ended_.clear();
  for (const std::int32_t request : handed_.finished) {
    finish(request, now);
  }
  return static_cast<std::int64_t>(handed_.finished.size());
}

Scheduler::UnfinishedWork Scheduler::unfinished() const {
  UnfinishedWork out;
  const auto add_generated = [&](std::int64_t tokens) {
    out.output_tokens += tokens;
    out.gaps += std::max<std::int64_t>(0, tokens - 1);
  };
  std::vector<DecodeSet::Member> decoding = decodes_.members();
  decoding.insert(decoding.end(), joining_.begin(), joining_.end());
  for (const DecodeSet::Member& m : decoding) {
    const Active& a = active_.at(m.request);
    out.prompt_tokens += a.done;
    out.kv_blocks += own_blocks(m.request, a, m.context);
    add_generated(record(m.request).output_tokens - m.left - m.made);
  }
  for (const std::int32_t request : partial_) {
    const Active& a = active_.at(request);
    out.prompt_tokens += a.done;
    out.kv_blocks += own_blocks(request, a, a.done);
  }
  for (const std::int32_t request : in_transfer_) {
    const Active& a = active_.at(request);
    out.prompt_tokens += a.done;
    out.kv_blocks += own_blocks(request, a, a.done);
    add_generated(options_.role == InstanceRole::kPrefill ? 1 : 0);  // counted where the token was made
  }
  for (const auto& [request, left_behind] : resumed_) {  // waiting again, or at work on their prompt again
    add_generated(left_behind.generated);
  }
  return out;
}

}  // namespace epsim
