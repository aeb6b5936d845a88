#include "sim/cluster/deployment.h"

#include <algorithm>
#include <utility>

#include "sim/cluster/audit.h"
#include "sim/cluster/latency.h"
#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "sim/scheduler/engines.h"
#include "sim/step/step_cost_checks.h"

namespace epsim {

Deployment::Deployment(const RequestTrace& trace, RequestRecords records, std::span<const InstanceSpec> specs,
                       Router router, const RunControl& control, int retry_limit)
    : loop_(trace.closed_loop),
      turn_before_(trace.turn_before),
      specs_(specs),
      rule_(router),
      control_(control),
      retry_limit_(retry_limit),
      unnoticed_(specs.size()),
      levels_(specs.size()) {
  EPSIM_CHECK(control.progress_every_steps > 0, "progress is reported every few steps");
  result_.requests = std::move(records);
  if (!turn_before_.empty()) {
    result_.due = mapped(result_.requests, [](const RequestRecord& r) -> Ticks { return r.arrival; });
  }
  std::size_t ranks = 0;
  for (const InstanceSpec& spec : specs) {
    first_rank_.push_back(static_cast<std::int64_t>(ranks));
    ranks += static_cast<std::size_t>(spec.options.dp_ranks);
  }
  EPSIM_CHECK(static_cast<std::int64_t>(ranks) <= kMostRanks, "records can name every DP rank");
  ranks_.reserve(ranks);
  instances_.reserve(specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const ServingOptions& options = specs[i].options;
    for (int r = 0; r < options.dp_ranks; ++r) {
      ranks_.push_back(
          make_scheduler(options, {result_.requests, &trace.prefixes, static_cast<std::int32_t>(ranks_.size()),
                                   turn_before_.empty() ? nullptr : &ended_}));
    }
    instances_.emplace_back(specs[i], static_cast<std::int32_t>(i),
                            std::span(ranks_).last(static_cast<std::size_t>(options.dp_ranks)));
    (options.role == InstanceRole::kDecode ? decoders_ : fronts_).push_back(i);
    standing_.push_back({std::vector<bool>(static_cast<std::size_t>(options.dp_ranks), false)});
    lane_free_.emplace_back(static_cast<std::size_t>(options.dp_ranks));
    inbound_.emplace_back(static_cast<std::size_t>(options.dp_ranks));
    result_.transfers.sent.emplace_back(static_cast<std::size_t>(options.dp_ranks));
    result_.transfers.received.emplace_back(static_cast<std::size_t>(options.dp_ranks));
    for (std::size_t l = 0; l < specs[i].changes.size(); ++l) {
      may_lose_ = may_lose_ || specs[i].changes[l].gpus;
      queue_.push(specs[i].changes[l].at, Phase::Rebalance,
                  HardwareChanged{static_cast<std::int32_t>(i), static_cast<std::int32_t>(l)});
    }
  }
  memory_first_ = !decoders_.empty() && specs[fronts_.front()].options.memory_first;
  result_.concurrency = loop_.concurrency;
  result_.warmup = loop_.warmup;
  result_.ramp = trace.ramp;
  result_.kv.prefix_cache =
      std::ssize(trace.prefixes.ids) > trace.prefixes.distinct &&
      std::ranges::any_of(specs, [](const InstanceSpec& spec) { return spec.options.prefix_caching; });
  warming_up_ = loop_.warmup > 0;
  if (result_.concurrency > 0) {
    start_clients();
  } else {
    expect_arrival(0);
  }
}

void Deployment::expect_step(std::size_t instance) {
  if (!instances_[instance].step_expected) {
    queue_.push(now_, Phase::Schedule, StepDue{static_cast<std::int32_t>(instance)});
    instances_[instance].step_expected = true;
  }
}

// The model's next arrival, unless it is expected already.
void Deployment::expect_weights(std::size_t i) {
  const std::optional<Ticks> next = specs_[i].model->next_arrival();
  if (next && next != instances_[i].arrival_expected) {
    queue_.push(std::max(*next, now_), Phase::Rebalance, WeightsArrived{static_cast<std::int32_t>(i)});
  }
  instances_[i].arrival_expected = next;
}

void Deployment::on(const WeightsArrived& event) {
  const auto i = static_cast<std::size_t>(event.instance);
  if (instances_[i].arrival_expected != now_) {
    return;  // a step changed the pace, or GPUs went
  }
  specs_[i].model->on_arrival(now_);
  instances_[i].arrival_expected.reset();
  expect_weights(i);
  if (!instances_[i].stepping && instances_[i].any_work()) {
    expect_step(i);
  }
}

// Nothing is left to happen but changes that concern nobody.
bool Deployment::all_ended() const {
  return arrived_ == std::ssize(result_.requests) && counters_.requests.in_system() == 0 && in_flight_ == 0;
}

bool Deployment::stop_wanted() const {
  return control_.stop != nullptr && control_.stop->load(std::memory_order_relaxed);
}

// One of the instances; the rules are those of DP ranks (router.h), over the sums of their ranks.
std::size_t Deployment::pick(std::span<const std::size_t> among, std::size_t& next, Router rule,
                             std::int32_t request) const {
  if (rule == Router::kRoundRobin || among.size() == 1) {
    const std::size_t chosen = among[next];
    next = (next + 1) % among.size();
    return chosen;
  }
  if (rule == Router::kRandom) {
    const bool decode = specs_[among.front()].options.role == InstanceRole::kDecode;
    return among[pick_random(Seed{specs_.front().options.seed}, decode ? "router.decoders" : "router.instances",
                             among.size(), request)];
  }
  std::vector<RouterChoice> choices;
  for (const std::size_t i : among) {
    choices.push_back({instances_[i].load(), rule == Router::kCacheAware ? instances_[i].cached_tokens(request) : 0});
  }
  return among[pick_choice(rule, choices, result_.requests[static_cast<std::size_t>(request)].input_tokens)];
}

void Deployment::ended(std::int64_t requests) {
  result_.completed += requests;
  counters_.requests.left(requests);
  fingerprint_.add(requests);
  send_next(requests);
  send_turns();
}

void Deployment::on(const StepDone& event) {
  const auto i = static_cast<std::size_t>(event.instance);
  EPSIM_CHECK(event.step == instances_[i].totals().steps, "steps end in the order in which they start");
  instances_[i].step_expected = instances_[i].stepping = false;
  ended(instances_[i].end_step(now_, counters_));
  --in_flight_;
  level_.stepping_gpus -= specs_[i].gpus;
  ++result_.steps;
  if (control_.on_progress && result_.steps % control_.progress_every_steps == 0) {
    report_progress();
  }
  for (const std::size_t change : std::exchange(unnoticed_[i], {})) {
    change_gpus(i, specs_[i].changes[change]);
  }
  expect_weights(i);
  if (may_lose_ && stranded(i)) {
    lose_instance(i);
  }
  settle(i);
  observe(i);
}

// After memory or work of an instance has changed: what it can start.
void Deployment::settle(std::size_t i) {
  if (!instances_[i].alive()) {
    return;
  }
  if (instances_[i].role() == InstanceRole::kPrefill) {
    hand_over(i);
  } else if (instances_[i].role() == InstanceRole::kDecode) {
    start_transfers(i);
  }
  if (instances_[i].any_work()) {
    expect_step(i);
  } else {
    instances_[i].on_idle();
  }
}

void Deployment::on(const StepDue& event) {
  result_.interrupted = result_.interrupted || stop_wanted();
  if (result_.interrupted) {
    return;
  }
  Instance& instance = instances_[static_cast<std::size_t>(event.instance)];
  if (!instance.alive()) {
    instance.step_expected = false;
    return;
  }
  if (now_ < instance.blocked_until) {
    queue_.push(instance.blocked_until, Phase::Schedule, event);
    return;
  }
  if (instance.holds_step(now_)) {
    instance.step_expected = false;
    return;
  }
  const auto [duration, finished] = instance.start_step(now_, control_, counters_, fingerprint_);
  if (finished > 0) {
    ended(finished);
  }
  observe(static_cast<std::size_t>(event.instance));
  if (duration == Ticks{}) {
    if (instance.role() == InstanceRole::kDecode) {
      start_transfers(static_cast<std::size_t>(event.instance));  // of requests that it has just seen
    }
    pass_without_step(static_cast<std::size_t>(event.instance));
    return;
  }
  ++in_flight_;
  instance.stepping = true;
  level_.stepping_gpus += specs_[static_cast<std::size_t>(event.instance)].gpus;
  expect_weights(static_cast<std::size_t>(event.instance));
  queue_.push(now_ + duration, Phase::Complete, StepDone{event.instance, instance.totals().steps});
  if (instance.role() == InstanceRole::kPrefill) {
    hand_over(static_cast<std::size_t>(event.instance));
  } else if (instance.role() == InstanceRole::kDecode) {
    start_transfers(static_cast<std::size_t>(event.instance));  // a retraction may have made room
  }
}

// The scheduler found nothing to run: it looks at the tokens of the step before and tries again. Else all of the work
// waits for a transfer, or for prompts of other ranks.
void Deployment::pass_without_step(std::size_t i) {
  Instance& instance = instances_[i];
  instance.step_expected = false;
  const bool again = instance.has_unseen_tokens();
  stop_loop(i);
  if (again) {
    settle(i);
    observe(i);
  } else if (instance.holds_prompts()) {
    queue_.push(now_ + kIdlePass, Phase::Schedule, StepDue{static_cast<std::int32_t>(i)});
    instance.step_expected = true;
  }
}

void Deployment::stop_loop(std::size_t i) {
  if (instances_[i].has_unseen_tokens()) {
    ended(instances_[i].stop_loop(now_, counters_));
  }
}

// Requests and memory of an instance have changed; the series is told with the next event.
void Deployment::observe(std::size_t i) {
  SeriesRecorder::Levels now;
  const bool last_pool = in_last_pool(i);
  for (const auto& rank : instances_[i].ranks()) {
    const RankLoad load = rank->load();
    now.running += load.running - load.coming;  // a prompt that comes counts where it comes from
    now.kv_blocks += last_pool ? rank->kv().used() : 0;
  }
  SeriesRecorder::Levels& before = levels_[i];
  level_.running += now.running - before.running;
  level_.kv_blocks += now.kv_blocks - before.kv_blocks;
  before = now;
}

void Deployment::handle(Ticks at, const ServingEvent& event) {
  counters_.kv_block_seconds += static_cast<double>(level_.kv_blocks) * to_seconds(at - now_).count();
  now_ = at;
  counters_.requests.advance(now_);
  level_.queued = counters_.requests.in_system() - level_.running;
  series_.advance(now_, level_);
  const std::int64_t tokens = counters_.all_gaps();
  std::visit([this](const auto& what) { on(what); }, event);
  series_.hand_out(counters_.all_gaps() - tokens);
}

RunResult Deployment::run() {
  // Only a StepDue looks at the control's wish, and steps under way end, so that none is left half done.
  while (!queue_.empty() && !(result_.interrupted && in_flight_ == 0) && !all_ended()) {
    const auto [key, event] = queue_.pop();
    fingerprint_.add(static_cast<std::int64_t>(key.at.count()));
    fingerprint_.add(static_cast<std::uint64_t>(key.phase));
    add_to(fingerprint_, event);
    handle(key.at, event);
  }
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    stop_loop(i);  // of a run that was stopped
  }
  result_.end = now_;
  return take_result();
}

// Of decode instances, where there are any, else of all.
std::int64_t Deployment::blocks_of_last_pool() const {
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    blocks += in_last_pool(i) ? specs_[i].options.kv_blocks * specs_[i].options.dp_ranks : 0;
  }
  return blocks;
}

KvStats Deployment::kv_stats() const {
  KvStats out = result_.kv;
  const ServingOptions& served = specs_.back().options;  // of a decode instance, where there are any
  out.blocks_per_rank = served.kv_blocks;
  out.block_tokens = served.kv_block_tokens;
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    for (const auto& rank : instances_[i].ranks()) {
      out.peak_blocks = in_last_pool(i) ? std::max(out.peak_blocks, rank->kv().peak()) : out.peak_blocks;
    }
  }
  for (const auto& rank : ranks_) {
    const Scheduler::Counts& c = rank->counts();
    out.lookup_tokens += c.lookup_tokens;
    out.hit_tokens += c.hit_tokens;
    out.retractions += c.retractions;
    out.recomputed_tokens += c.recomputed_tokens;
    out.evicted_prefix_blocks += rank->kv().evicted_prefix_blocks();
  }
  out.lookup_tokens -= counters_.warmup_lookup_tokens;
  out.hit_tokens -= counters_.warmup_hit_tokens;
  const double pool_seconds = static_cast<double>(blocks_of_last_pool()) * to_seconds(result_.end).count();
  out.mean_use = pool_seconds > 0 ? counters_.kv_block_seconds / pool_seconds : 0;
  out.time_full_share = counters_.busy > Ticks{} ? to_seconds(counters_.blocked) / to_seconds(counters_.busy) : 0;
  return out;
}

void Deployment::add_totals() {
  for (const Instance& instance : instances_) {
    const InstanceTotals& totals = instance.totals();
    result_.instances.push_back(totals);
    result_.replayed_steps += totals.replayed_steps;
    add_cost(result_.time, totals.time);
    for (std::size_t k = 0; k < totals.by_kind.size(); ++k) {
      result_.by_kind[k].steps += totals.by_kind[k].steps;
      add_cost(result_.by_kind[k].time, totals.by_kind[k].time);
    }
  }
  for (const RequestRecord& r : result_.requests) {
    if (r.state == RequestState::kCompleted) {
      result_.input_tokens += r.input_tokens;
      result_.output_tokens += r.output_tokens;
    }
  }
}

void Deployment::leave_out_warmup() {
  for (const RequestRecord& r : std::span(result_.requests).first(static_cast<std::size_t>(result_.warmup))) {
    if (r.state == RequestState::kCompleted) {
      --result_.completed;
      result_.input_tokens -= r.input_tokens;
      result_.output_tokens -= r.output_tokens;
    }
    result_.failed -= r.state == RequestState::kFailed ? 1 : 0;
  }
}

RunResult Deployment::take_result() {
  add_totals();
  audit_run(result_, counters_, ranks_);
  leave_out_warmup();
  result_.latency = summarize_latency(result_.measured(), counters_.gaps);
  result_.kv = kv_stats();
  result_.series = series_.finish(result_.end, blocks_of_last_pool(), result_.requests);
  result_.fingerprint = fingerprint_.hex();
  return std::move(result_);
}

void Deployment::report_progress() const {
  control_.on_progress({now_, result_.steps, arrived_, result_.completed, std::ssize(result_.requests)});
}

}  // namespace epsim
