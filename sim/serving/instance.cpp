#include "sim/serving/instance.h"

#include <algorithm>
#include <utility>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/engine/run_loop.h"
#include "sim/serving/audit.h"
#include "sim/serving/latency.h"
#include "sim/serving/step_account.h"
#include "sim/serving/step_shape.h"

namespace epsim {
namespace {

// As late as to_ticks() goes.
constexpr Ticks kLastTime{9'200'000'000'000'000'000};

std::vector<RequestRecord> records_of(const RequestTrace& trace) {
  std::vector<RequestRecord> out(trace.requests.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Request& r = trace.requests[i];
    out[i].input_tokens = r.input_tokens;
    out[i].output_tokens = r.output_tokens;
    out[i].arrival = r.arrival;
  }
  return out;
}

}  // namespace

Instance::Instance(const RequestTrace& trace, const ServingOptions& options, StepPricer& pricer,
                   const RunControl& control)
    : trace_(trace), options_(options), pricer_(pricer), control_(control), router_(options.router) {
  EPSIM_CHECK(control.progress_every_steps > 0, "progress is told every so many steps");
  result_.requests = records_of(trace);
  ranks_.reserve(static_cast<std::size_t>(options.dp_ranks));
  for (int r = 0; r < options.dp_ranks; ++r) {
    ranks_.emplace_back(options, result_.requests, &trace.prefixes);
  }
  batches_.resize(ranks_.size());
  expect_arrival(0);
}

void Instance::expect_arrival(std::size_t request) {
  if (request < trace_.requests.size()) {
    queue_.push(trace_.requests[request].arrival, Phase::Arrive, RequestArrived{static_cast<std::int32_t>(request)});
  }
}

void Instance::expect_step() {
  if (!step_expected_) {
    queue_.push(now_, Phase::Schedule, StepDue{});
    step_expected_ = true;
  }
}

bool Instance::stop_wanted() const {
  return control_.stop != nullptr && control_.stop->load(std::memory_order_relaxed);
}

bool Instance::any_work() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const DpRank& rank) { return rank.has_work(); });
}

void Instance::on(const RequestArrived& event) {
  const std::size_t rank = router_.pick(ranks_, event.request);
  ranks_[rank].enqueue(event.request);
  result_.requests[static_cast<std::size_t>(event.request)].rank = static_cast<std::int32_t>(rank);
  tally_.requests.arrived();
  ++arrived_;
  fingerprint_.add(static_cast<std::uint64_t>(rank));
  expect_arrival(static_cast<std::size_t>(event.request) + 1);
  expect_step();
}

void Instance::on(const StepDone& event) {
  EPSIM_CHECK(event.step == result_.steps, "steps end in the order in which they start");
  ++result_.steps;
  step_expected_ = false;
  std::int64_t finished = 0;
  for (DpRank& rank : ranks_) {
    finished += rank.end_step(now_, tally_.gaps);
  }
  result_.completed += finished;
  tally_.requests.left(finished);
  fingerprint_.add(finished);
  if (control_.on_progress && result_.steps % control_.progress_every_steps == 0) {
    report_progress();
  }
  if (any_work()) {
    expect_step();
  } else {
    std::for_each(ranks_.begin(), ranks_.end(), [](DpRank& rank) { rank.on_idle(); });
  }
}

void Instance::on(const StepDue&) {
  if (stop_wanted()) {
    result_.interrupted = true;
  } else {
    start_step();
  }
}

void Instance::start_step() {
  std::int64_t kv_blocks = 0;
  bool blocked = false;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    batches_[r] = ranks_[r].begin_step(now_);
    tally_.prefill_tokens += batches_[r].prefill_tokens;
    tally_.decode_tokens += batches_[r].decode_tokens;
    fingerprint_.add(batches_[r].prefill_tokens);
    fingerprint_.add(batches_[r].decode_tokens);
    kv_blocks += ranks_[r].kv().used();
    blocked = blocked || ranks_[r].head_lacks_blocks();
  }
  const bool replayed = replay_padded(options_.graphs, batches_);
  result_.replayed_steps += replayed ? 1 : 0;
  if (control_.recorder != nullptr) {
    control_.recorder->begin_step(result_.steps, now_, batches_);
    std::vector<std::int64_t> reserved;
    for (const DpRank& rank : ranks_) {
      reserved.push_back(rank.kv().used());
    }
    control_.recorder->kv(reserved);
  }
  pricer_.advance_to(now_);
  const StepCost cost = with_gap(pricer_.price(result_.steps, batches_), declared_gap(options_, replayed));
  check_cost(cost);
  if (!(cost.total < to_seconds(kLastTime - now_))) {
    throw RunFailed("The run passes 106 days of simulated time, the most that picoseconds in 64 bits can count.");
  }
  const Ticks duration = to_ticks(cost.total);
  EPSIM_CHECK(duration > Ticks{}, "a step with work in it takes time");
  if (control_.recorder != nullptr) {
    control_.recorder->end_step(duration);
  }
  add_cost(result_.time, cost);
  tally_.busy += duration;
  tally_.blocked += blocked ? duration : Ticks{};
  tally_.kv_block_seconds += static_cast<double>(kv_blocks) * to_seconds(duration).count();
  fingerprint_.add(duration.count());
  queue_.push(now_ + duration, Phase::Complete, StepDone{result_.steps});
}

void Instance::run() {
  const auto handle = [this](const EventKey& key, const ServingEvent& event) {
    now_ = key.at;
    tally_.requests.advance(now_);
    std::visit([this](const auto& what) { on(what); }, event);
  };
  // Only a StepDue looks at the control's wish, so that no step is left half done.
  run_events(queue_, handle, fingerprint_, [this] { return result_.interrupted; });
  result_.end = now_;
}

KvStats Instance::kv_stats() const {
  KvStats out;
  out.blocks_per_rank = options_.kv_blocks;
  out.block_tokens = options_.kv_block_tokens;
  for (const DpRank& rank : ranks_) {
    out.peak_blocks = std::max(out.peak_blocks, rank.kv().peak());
  }
  for (const DpRank& rank : ranks_) {
    const DpRank::Counts& c = rank.counts();
    out.lookup_tokens += c.lookup_tokens;
    out.hit_tokens += c.hit_tokens;
    out.retractions += c.retractions;
    out.recomputed_tokens += c.recomputed_tokens;
    out.evicted_prefix_blocks += rank.kv().evicted_prefix_blocks();
  }
  const double pool_seconds =
      static_cast<double>(options_.kv_blocks) * options_.dp_ranks * to_seconds(result_.end).count();
  out.mean_use = pool_seconds > 0 ? tally_.kv_block_seconds / pool_seconds : 0;
  out.time_full_share = tally_.busy > Ticks{} ? to_seconds(tally_.blocked) / to_seconds(tally_.busy) : 0;
  return out;
}

RunResult Instance::take_result() {
  audit_run(result_, tally_, ranks_);
  for (const RequestRecord& r : result_.requests) {
    if (r.state == RequestState::kCompleted) {
      result_.input_tokens += r.input_tokens;
      result_.output_tokens += r.output_tokens;
    }
  }
  result_.latency = summarize_latency(result_.requests, tally_.gaps);
  result_.kv = kv_stats();
  result_.fingerprint = fingerprint_.hex();
  return std::move(result_);
}

void Instance::report_progress() const {
  control_.on_progress({now_, result_.steps, arrived_, result_.completed, std::ssize(trace_.requests)});
}

}  // namespace epsim
