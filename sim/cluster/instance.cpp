#include "sim/cluster/instance.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/scheduler/cuda_graph.h"
#include "sim/step/step_cost_checks.h"

namespace epsim {
namespace {

// As late as to_ticks() goes.
constexpr Ticks kLastTime{9'200'000'000'000'000'000};

}  // namespace

Instance::Instance(const InstanceSpec& spec, std::int32_t number, std::span<const std::unique_ptr<Scheduler>> ranks)
    : spec_(spec),
      number_(number),
      ranks_(ranks),
      router_(spec.options),
      gate_(spec.options.prefill_alignment),
      batches_(ranks.size()) {
  EPSIM_CHECK(!ranks.empty() && spec.model != nullptr, "an instance has DP ranks and a price for its steps");
  totals_.role = spec.options.role;
}

std::size_t Instance::enqueue(std::int32_t request) {
  const std::size_t rank = router_.pick(ranks_, request);
  ranks_[rank]->enqueue(request);
  return rank;
}

std::size_t Instance::enqueue_remote(std::int32_t request) {
  const std::size_t rank = router_.pick(ranks_, request);
  ranks_[rank]->enqueue_remote(request, !stepping);
  return rank;
}

bool Instance::any_work() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->has_work(); });
}

bool Instance::alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->alive(); });
}

void Instance::on_idle() {
  gate_.on_idle();
  looping_ = held_launch_ = unseen_tokens_ = false;
  std::for_each(ranks_.begin(), ranks_.end(), [](const auto& rank) { rank->on_idle(); });
}

RankLoad Instance::load() const {
  RankLoad sum;
  for (const auto& rank : ranks_) {
    sum += rank->load();
  }
  return sum;
}

std::int64_t Instance::cached_tokens(std::int32_t request) const {
  std::int64_t most = 0;
  for (const auto& rank : ranks_) {
    most = std::max(most, rank->cached_tokens(request));
  }
  return most;
}

// Whether new prompts wait in this pass. Ranks that are lost have no say.
bool Instance::align_prompts() {
  if (gate_.off()) {
    return false;
  }
  std::vector<PrefillRank> say;
  for (const auto& rank : ranks_) {
    if (rank->alive()) {
      say.push_back(rank->prefill_rank());
    }
  }
  return gate_.holds(say);
}

Instance::Formed Instance::form_batches(Ticks now, RunCounters& counters, Fingerprint& fingerprint) {
  Formed out;
  holds_prompts_ = align_prompts();
  bool prompts = false;
  for (const auto& rank : ranks_) {
    prompts = rank->begin_prompts(now, holds_prompts_, gate_.holds_all()).prefill_tokens > 0 || prompts;
  }
  gate_.on_formed(prompts);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    batches_[r] = ranks_[r]->begin_decodes(prompts);
    counters.prefill_tokens += batches_[r].prefill_tokens;
    counters.decode_tokens += batches_[r].decode_tokens;
    fingerprint.add(batches_[r].prefill_tokens);
    fingerprint.add(batches_[r].decode_tokens);
    out.tokens += batches_[r].tokens();
    out.blocked = out.blocked || ranks_[r]->head_lacks_blocks();
  }
  return out;
}

StepCost Instance::price(Ticks now, const StepCost& waited, Ticks since, const RunControl& control) {
  const bool replayed = replay_padded(spec_.options.graphs, batches_);
  totals_.replayed_steps += replayed ? 1 : 0;
  if (kind_of(batches_) == StepKind::kDecode) {
    for (const RankBatch& batch : batches_) {
      totals_.most_decodes = std::max(totals_.most_decodes, batch.tokens());
    }
  }
  if (control.recorder != nullptr) {
    control.recorder->begin_step({number_, totals_.steps, now, batches_, waited, since});
    control.recorder->kv(mapped(ranks_, [](const auto& rank) { return rank->kv().used(); }));
  }
  StepCost cost =
      spec_.model->price({totals_.steps, now, replayed && shared_beside(spec_.options, batches_)}, batches_);
  held_launch_ = false;
  if (!replayed) {
    const auto& [batch, drafter] = spec_.eager[kind_of(batches_) == StepKind::kDecode ? 0 : 1];
    const EagerWork work = cost.batches * batch + drafter;
    const Seconds wait = work.host_wait(cost.total, spec_.options.launch_time);
    held_launch_ = work.waits > 0 || wait.count() > 0;
    add_declared(cost, LayerPart::kHost, wait);
  }
  add_declared(cost, LayerPart::kHost, schedule_gap(spec_.options));
  add_declared(cost, LayerPart::kOther, declared_gap(spec_.options, replayed));
  if (!replayed && spec_.options.graphs.enabled && kind_of(batches_) == StepKind::kDecode) {
    totals_.eager_decodes += cost.total;
  }
  check_cost(cost);
  if (!(cost.total < to_seconds(kLastTime - now))) {
    throw RunFailed("The run passes 106 days of simulated time, the most that picoseconds in 64 bits can count.");
  }
  return cost;
}

bool Instance::holds_step(Ticks now) {
  if (!spec_.model->holds_steps()) {
    return false;
  }
  held_since_ = held_since_.value_or(now);
  return true;
}

Instance::Started Instance::start_step(Ticks now, const RunControl& control, RunCounters& counters,
                                       Fingerprint& fingerprint) {
  const std::int64_t ended = held_launch_ || !looping_ ? take_in(now) : 0;
  const Formed formed = form_batches(now, counters, fingerprint);
  if (formed.tokens == 0) {
    return {Ticks{}, ended};
  }
  const Ticks since = held_since_.value_or(now);
  const StepCost waited = held_since_ ? spec_.model->waited(since, now) : StepCost{};
  held_since_.reset();
  const StepCost cost = price(now, waited, since, control);
  const Ticks duration = to_ticks(cost.total);
  EPSIM_CHECK(duration > Ticks{}, "a step with work in it takes time");
  if (control.recorder != nullptr) {
    control.recorder->end_step(duration, cost);
  }
  KindTotals& alike = totals_.by_kind[static_cast<std::size_t>(kind_of(batches_))];
  ++alike.steps;
  for (StepCost* sum : {&totals_.time, &alike.time}) {
    add_cost(*sum, waited);
    add_cost(*sum, cost);
  }
  const Ticks busy = to_ticks(waited.total) + duration;
  counters.busy += busy;
  counters.blocked += formed.blocked ? busy : Ticks{};
  fingerprint.add(duration.count());
  return {duration, ended + after_launch(now, counters)};
}

std::int64_t Instance::take_in(Ticks now) {
  const bool busy = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->busy(); });
  const bool receives = !busy || spec_.options.receive_interval == 1 || passes_ >= spec_.options.receive_interval;
  passes_ = receives ? 0 : passes_;
  return std::accumulate(ranks_.begin(), ranks_.end(), std::int64_t{0},
                         [&](std::int64_t ended, const auto& rank) { return ended + rank->take_in(now, receives); });
}

std::int64_t Instance::hand_out(Ticks now, RunCounters& counters) {
  std::int64_t finished = 0;
  if (std::exchange(unseen_tokens_, false)) {
    for (const auto& rank : ranks_) {
      finished += rank->hand_out(now, counters.gaps);
    }
  }
  return finished;
}

// What the host does once the step is launched, unless the launch holds it.
std::int64_t Instance::after_launch(Ticks now, RunCounters& counters) {
  passes_ += kind_of(batches_) == StepKind::kDecode ? 1 : spec_.options.receive_interval;
  held_launch_ = held_launch_ && looping_ && spec_.options.overlap_schedule;
  looping_ = spec_.options.overlap_schedule;
  if (held_launch_) {
    return 0;
  }
  const std::int64_t finished = hand_out(now, counters);
  return finished + take_in(now);
}

std::int64_t Instance::end_step(Ticks now, RunCounters& counters) {
  ++totals_.steps;
  spec_.model->end_step(now);
  std::int64_t finished = hand_out(now, counters);
  std::for_each(ranks_.begin(), ranks_.end(), [](const auto& rank) { rank->end_step(); });
  unseen_tokens_ = true;
  if (!spec_.options.overlap_schedule) {
    finished = hand_out(now, counters);
  }
  return finished;
}

std::int64_t Instance::stop_loop(Ticks now, RunCounters& counters) {
  looping_ = held_launch_ = false;
  return hand_out(now, counters);
}

}  // namespace epsim
