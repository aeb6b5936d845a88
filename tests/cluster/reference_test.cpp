// The serving loop against a second one that is as simple as it can be: no events, no queue, no bookkeeping by last
// step. It visits every request in every step and every token of every chunk. All times must agree to the picosecond.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/cluster/simulate.h"
#include "sim/core/rng.h"
#include "tests/cluster/random_scenario.h"

namespace epsim {
namespace {

struct NaiveRequest {
  Request ask;
  std::size_t rank = 0;
  bool arrived = false, admitted = false, decodes_now = false;
  std::int64_t chunk = 0;  // prompt tokens in the step under way
  std::int64_t prefilled = 0, made = 0;
  Ticks admitted_at{}, first_at{}, finished_at{};

  std::int64_t total() const { return std::int64_t{ask.input_tokens} + ask.output_tokens; }
  bool done() const { return made == ask.output_tokens; }
  bool decoding() const { return made > 0 && !done(); }
};

class NaiveServer {
 public:
  NaiveServer(const RequestTrace& trace, const ServingOptions& options) : options_(options) {
    for (const Request& r : trace.requests) {
      requests_.push_back({});
      requests_.back().ask = r;
    }
  }

  void run(InstanceModel& pricer) {
    for (std::int64_t step = 0; !all_done();) {
      arrive();
      if (std::none_of(requests_.begin(), requests_.end(), [](const auto& r) { return r.arrived && !r.done(); })) {
        now_ = next_arrival();
        continue;
      }
      std::vector<RankBatch> batches;
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(options_.dp_ranks); ++rank) {
        batches.push_back(form(rank));
      }
      const Seconds cost = pricer.price(step++, batches).total + options_.step_gap;
      now_ += to_ticks(cost);
      hand_out();
    }
  }
  const std::vector<NaiveRequest>& requests() const { return requests_; }

 private:
  bool all_done() const {
    return std::all_of(requests_.begin(), requests_.end(), [](const auto& r) { return r.done(); });
  }
  Ticks next_arrival() const {
    return std::find_if(requests_.begin(), requests_.end(), [](const auto& r) { return !r.arrived; })->ask.arrival;
  }

  // A step that ended at the same time has been handed out before.
  void arrive() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      NaiveRequest& r = requests_[i];
      if (!r.arrived && r.ask.arrival <= now_) {
        r.rank = i % static_cast<std::size_t>(options_.dp_ranks);
        r.arrived = true;
      }
    }
  }

  std::vector<NaiveRequest*> of_rank(std::size_t rank) {
    std::vector<NaiveRequest*> out;
    for (NaiveRequest& r : requests_) {
      if (r.arrived && !r.done() && r.rank == rank) {
        out.push_back(&r);
      }
    }
    return out;
  }

  bool may_admit(const std::vector<NaiveRequest*>& mine, const NaiveRequest& head) const {
    const auto blocks = [&](const NaiveRequest& r) {
      return (r.total() + options_.kv_block_tokens - 1) / options_.kv_block_tokens;
    };
    std::int64_t used = 0, running = 0;
    for (const NaiveRequest* r : mine) {
      used += r->admitted ? blocks(*r) : 0;
      running += r->admitted ? 1 : 0;
    }
    return used + blocks(head) <= options_.kv_blocks &&
           (options_.max_running_requests == 0 || running < options_.max_running_requests);
  }

  bool mixed() const { return std::any_cast<const SglangKnobs&>(options_.knobs).mixed_chunk; }

  RankBatch form(std::size_t rank) {
    const std::vector<NaiveRequest*> mine = of_rank(rank);
    const auto decoding = std::count_if(mine.begin(), mine.end(), [](const auto* r) { return r->decoding(); });
    std::int64_t budget = options_.token_budget - (mixed() ? decoding : 0);
    RankBatch batch;
    for (NaiveRequest* r : mine) {
      if (r->made > 0) {
        continue;
      }
      if (budget <= 0 || (!r->admitted && !may_admit(mine, *r))) {
        break;
      }
      r->admitted_at = r->admitted ? r->admitted_at : now_;
      r->admitted = true;
      batch.prefill_context += static_cast<double>(r->prefilled);
      for (; budget > 0 && r->prefilled + r->chunk < r->ask.input_tokens; --budget) {
        ++r->chunk;
        ++batch.prefill_tokens;
        batch.prefill_pairs += static_cast<double>(r->prefilled + r->chunk);  // itself and all before it
      }
      batch.sampled += r->prefilled + r->chunk == r->ask.input_tokens ? 1 : 0;
    }
    for (NaiveRequest* r : mine) {
      r->decodes_now = r->decoding() && (mixed() || batch.prefill_tokens == 0);
      batch.decode_tokens += r->decodes_now ? 1 : 0;
      batch.sampled += r->decodes_now ? 1 : 0;
      batch.decode_context += r->decodes_now ? static_cast<double>(r->ask.input_tokens + r->made - 1) : 0;
    }
    return batch;
  }

  void hand_out() {
    for (NaiveRequest& r : requests_) {
      r.prefilled += r.chunk;
      const bool first = r.chunk > 0 && r.prefilled == r.ask.input_tokens;
      if (first || r.decodes_now) {
        ++r.made;
        r.first_at = first ? now_ : r.first_at;
        r.finished_at = now_;
      }
      r.chunk = 0;
      r.decodes_now = false;
    }
  }

  ServingOptions options_;
  std::vector<NaiveRequest> requests_;
  Ticks now_{};
};

}  // namespace

TEST_CASE("the serving loop equals one that visits every token") {
  for (std::uint64_t i = 0; i < 300; ++i) {
    CAPTURE(i);
    RandomStream random(Seed{77}, "serving-reference", i);
    const RequestTrace trace = test::random_trace(random);
    ServingOptions options = test::random_options(random);
    options.router = Router::kRoundRobin;
    test::UnevenPricer pricer;
    const RunResult run = simulate(trace, options, pricer, {});
    NaiveServer naive(trace, options);
    naive.run(pricer);
    for (std::size_t k = 0; k < trace.requests.size(); ++k) {
      CAPTURE(k);
      const NaiveRequest& want = naive.requests()[k];
      REQUIRE(run.requests[k].rank == static_cast<std::int32_t>(want.rank));
      REQUIRE(run.requests[k].admitted == want.admitted_at);
      REQUIRE(run.requests[k].first_token == want.first_at);
      REQUIRE(run.requests[k].finished == want.finished_at);
    }
  }
}

}  // namespace epsim
