#include "sim/cluster/audit.h"

#include <fmt/format.h>

#include "sim/core/check.h"

namespace epsim {
namespace {

// What the request records say, to be held against the counters.
struct RecordSums {
  std::int64_t completed = 0, failed = 0, running = 0, waiting = 0, in_system = 0;
  std::int64_t input_tokens = 0, output_tokens = 0;  // of completed requests
  RequestTicks residence = 0;
};

bool times_in_order(const RequestRecord& r, const RequestExtras& extras) {
  switch (r.state) {
    case RequestState::kCompleted:
      return r.arrival <= r.admitted && r.admitted < r.first_token && r.first_token <= r.finished &&
             (r.output_tokens > 1 || r.first_token == r.finished);  // the host may see two tokens at once
    case RequestState::kRunning:
      return r.arrival <= r.admitted && (r.first_token == Ticks{} || r.admitted < r.first_token);
    case RequestState::kFailed:
      return r.arrival <= r.finished && r.admitted == Ticks{} && r.first_token == Ticks{};
    case RequestState::kWaiting:
      return extras.retractions > 0 || (r.admitted == Ticks{} && r.first_token == Ticks{} && r.finished == Ticks{});
  }
  return false;
}

void add_record(RecordSums& sums, const RequestRecord& r, Ticks end) {
  const bool arrived = r.place != RequestPlace::kAway;
  if (r.state == RequestState::kCompleted) {
    ++sums.completed;
    sums.input_tokens += r.input_tokens;
    sums.output_tokens += r.output_tokens;
    sums.residence += (r.finished - r.arrival).count();
    return;
  }
  if (r.state == RequestState::kFailed) {
    ++sums.failed;
    sums.residence += (r.finished - r.arrival).count();
    return;
  }
  ++(r.state == RequestState::kRunning ? sums.running : sums.waiting);
  if (arrived) {
    ++sums.in_system;
    sums.residence += (end - r.arrival).count();
  }
}

RecordSums sum_records(const RunResult& result) {
  RecordSums sums;
  for (std::size_t i = 0; i < result.requests.size(); ++i) {
    const RequestRecord& r = result.requests[i];
    EPSIM_CHECK(times_in_order(r, result.requests.extras(i)),
                fmt::format("request {} does things out of order", i + 1));
    const bool may_be_nowhere = r.state == RequestState::kWaiting || r.state == RequestState::kFailed;
    EPSIM_CHECK(may_be_nowhere || r.routed(), fmt::format("request {} ran nowhere", i + 1));
    add_record(sums, r, result.end);
  }
  return sums;
}

void check_counts(const RecordSums& sums, const RunResult& result, const RunCounters& counters) {
  EPSIM_CHECK(sums.completed == result.completed && sums.failed == result.failed,
              "requests completed or failed differ from requests counted");
  EPSIM_CHECK(sums.in_system == counters.requests.in_system(), "requests were lost or counted twice");
  EPSIM_CHECK(result.interrupted || sums.running + sums.waiting == 0, "the run ended with requests unserved");
}

// What the ranks say, to be held against records and counters.
struct RankSums {
  Scheduler::Counts counts;
  Scheduler::UnfinishedWork open;
};

RankSums sum_ranks(std::span<const std::unique_ptr<Scheduler>> ranks) {
  RankSums sums;
  for (const auto& rank : ranks) {
    const Scheduler::UnfinishedWork open = rank->unfinished();
    const Scheduler::Counts& c = rank->counts();
    sums.open.prompt_tokens += open.prompt_tokens;
    sums.open.output_tokens += open.output_tokens;
    sums.open.gaps += open.gaps;
    sums.counts.hit_tokens += c.hit_tokens + c.rehit_tokens;
    sums.counts.received_tokens += c.received_tokens;
    sums.counts.rejected_tokens += c.rejected_tokens;
    sums.counts.overrun_tokens += c.overrun_tokens;
    sums.counts.prompt_ends += c.prompt_ends;
    sums.counts.dropped_prompt_tokens += c.dropped_prompt_tokens;
    sums.counts.resumed_tokens += c.resumed_tokens;
    sums.counts.lost_tokens += c.lost_tokens;
    sums.counts.lost_gaps += c.lost_gaps;
    EPSIM_CHECK(rank->kv().used() == open.kv_blocks + rank->kv().lent(), "KV blocks were leaked or returned too early");
    EPSIM_CHECK(
        rank->kv().used() + rank->kv().evictable() <= rank->kv().blocks() && rank->kv().peak() <= rank->kv().blocks(),
        "KV blocks in use passed the pool");
  }
  return sums;
}

void check_tokens_and_kv(const RecordSums& sums, const RunCounters& counters,
                         std::span<const std::unique_ptr<Scheduler>> ranks) {
  const RankSums of_ranks = sum_ranks(ranks);
  // Each life of a request from admission on computes its prompt but for what the prefix cache or another rank had. A
  // later life's prompt holds what the request had generated.
  const std::int64_t prompts = sums.input_tokens + of_ranks.counts.resumed_tokens +
                               of_ranks.counts.dropped_prompt_tokens + of_ranks.open.prompt_tokens -
                               of_ranks.counts.hit_tokens - of_ranks.counts.received_tokens;
  EPSIM_CHECK(counters.prefill_tokens == prompts,
              fmt::format("{} prompt tokens were priced, requests got {}", counters.prefill_tokens, prompts));
  const std::int64_t decoded = sums.output_tokens + of_ranks.open.output_tokens + of_ranks.counts.lost_tokens -
                               of_ranks.counts.prompt_ends + of_ranks.counts.rejected_tokens +
                               of_ranks.counts.overrun_tokens;
  EPSIM_CHECK(counters.decode_tokens == decoded,
              fmt::format("{} decode tokens were priced, requests got {}", counters.decode_tokens, decoded));
  const std::int64_t gaps = sums.output_tokens - sums.completed + of_ranks.open.gaps + of_ranks.counts.lost_gaps;
  EPSIM_CHECK(counters.all_gaps() == gaps, "token gaps and tokens differ");
}

}  // namespace

void audit_run(RunResult& result, const RunCounters& counters, std::span<const std::unique_ptr<Scheduler>> ranks) {
  const RecordSums sums = sum_records(result);
  check_counts(sums, result, counters);
  check_tokens_and_kv(sums, counters, ranks);
  EPSIM_CHECK(sums.residence == counters.requests.sum(), "Little's law does not hold");
  const auto span = static_cast<double>(result.end.count());
  if (span > 0) {
    // Arrival rate x mean residence = (n / span) x (residence / n).
    result.conservation.little_l = static_cast<double>(counters.requests.sum()) / span;
    result.conservation.little_lambda_w = static_cast<double>(sums.residence) / span;
  }
}

}  // namespace epsim
