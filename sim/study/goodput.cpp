#include "sim/study/goodput.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/core/refuse.h"
#include "sim/study/branches.h"
#include "sim/study/goodput_curve.h"
#include "sim/study/goodput_store.h"
#include "sim/study/load_point.h"
#include "sim/study/slo_curve.h"

namespace epsim {
namespace {

// Of the saturation throughput, where the knees of the main setups lie: a burst keeps all ranks in step with each
// other, which Poisson arrivals do not.
constexpr double kFirstStart = 0.55;
constexpr std::size_t kBurstPart = 3;      // of the trace, which shows the saturation throughput
constexpr std::size_t kBurstLeast = 2000;  // requests
// The least part of the trace that a rate is asked with, however few are in the system.
constexpr std::size_t kLeastPart = 12;
constexpr double kFirstStep = 1.25;
constexpr double kFollowerStep = 1.06;    // around a knee that is known from a pilot or another seed
constexpr double kFollowerReserve = 1.5;  // over the requests that such a knee asks for: more may be in the system

// The pilot: the same search, coarsely, with the first requests of the trace.
constexpr std::size_t kPilotPart = 4;
constexpr std::size_t kPilotLeast = 500;  // requests; a trace that has no such part goes without
constexpr double kPilotTolerance = 0.08;

constexpr std::size_t kSloRequests = 1000;  // of a rate of which nothing is known
constexpr double kSloStep = 1.5;
constexpr double kPolicyStep = 1.12;         // around the rate of another policy
constexpr std::size_t kKneeRequests = 4000;  // of a generated trace to begin with

// Too few requests to tell a steady state; a trace of `needed` would do.
struct TooFewRequests : InputError {
  TooFewRequests(InputPlace at, const std::string& what, std::size_t requests)
      : InputError(std::move(at), what), needed(requests) {}
  std::size_t needed;
};

void require_enough_requests(const LoadPoint& probe, const SearchTarget& target, const GoodputOptions& options) {
  if (probe.enough_requests) {
    return;
  }
  // The number in the system may still rise with a longer trace, so ask for a quarter more, in whole hundreds.
  const double needed = std::ceil(1.25 * options.min_requests_ratio * probe.outstanding / 100) * 100;
  throw TooFewRequests(
      {target.trace->source, 0, "requests"},
      fmt::format("at {:.4g} requests/s, {} keeps {:.0f} requests in the system, so the trace's {} are too "
                  "few to distinguish a steady state from a slow build-up: about {:.0f} are needed ({:g} times "
                  "the number in the system, and a margin). Give a longer recording, resample it to a higher rate "
                  "(rate_by: resample), or lower --min-requests-ratio.",
                  probe.offered, target.policy, probe.outstanding, probe.requests, needed, options.min_requests_ratio),
      static_cast<std::size_t>(needed));
}

// `on_load_point`, and the end of a search that nobody will ask for.
OnLoadPoint abandonable(const OnLoadPoint& on_load_point, const Abandoned& abandoned) {
  return [on_load_point, abandoned](const SearchTarget& target, const LoadPoint& probe) {
    if (on_load_point) {
      on_load_point(target, probe);
    }
    if (abandoned()) {
      throw StudyInterrupted();
    }
  };
}

RunResult serve_all(const SearchTarget& target, const RequestTrace& trace) { return whole_run(target.serve(trace)); }

GoodputSearch search_of(const SearchTarget& target) {
  GoodputSearch out;
  out.policy = target.policy;
  out.seed_index = target.seed_index;
  out.seed = target.seed;
  out.kv_lost_share = target.kv_lost_share;
  out.kv_tokens_per_rank = target.kv_tokens_per_rank;
  return out;
}

GoodputSearch conclude(const SearchTarget& target, const GoodputOptions& options, GoodputCurve curve) {
  GoodputSearch out = search_of(target);
  out.idle_ttft_s = curve.idle_ttft_s;
  out.knee = knee_of(curve, options.k, options);
  out.sensitivity = mapped(options.sensitivity, [&](double k) { return knee_of(curve, k, options); });
  for (const LoadPoint& p : curve.probes) {
    if (!acceptable(p, curve.idle_ttft_s, options)) {
      break;
    }
    out.best = p;
  }
  out.curve = std::move(curve.probes);
  return out;
}

// Completions per second when a part of the trace, large enough to fill the KV pools several times, comes at once.
double saturation_of(const SearchTarget& target, const GoodputOptions& options) {
  const std::size_t requests = std::max(kBurstLeast, target.trace->steady() / kBurstPart);
  return saturation_rate(serve_all(target, as_burst(first_of(*target.trace, requests))), options);
}

// So many requests of `trace`; where conversations keep their own times, made again for this rate.
RequestTrace requests_of(const SearchTarget& target, const RequestTrace& trace, std::size_t count, double rate) {
  return target.paced ? target.paced(count, rate / arrival_rate(*target.trace)) : first_of(trace, count);
}

double idle_ttft_of(const SearchTarget& target) { return idle_ttft_s(serve_all(target, one_at_a_time(*target.trace))); }

}  // namespace

GoodputSearch search_goodput(const SearchTarget& target, const GoodputOptions& options, const SearchStart& start,
                             const OnLoadPoint& on_load_point) {
  const double saturation = start.saturation > 0 ? start.saturation : saturation_of(target, options);
  GoodputCurve curve{.idle_ttft_s = start.idle_ttft_s > 0 ? start.idle_ttft_s : idle_ttft_of(target),
                     .start = start.rate > 0 ? start.rate : kFirstStart * saturation,
                     .start_step = start.step,
                     .probes = {}};
  GoodputOptions wanted = options;
  if (options.sensitivity_of_first_seed && target.seed_index > 0) {
    wanted.sensitivity.clear();
  }
  const std::size_t all = target.trace->steady();
  const std::size_t usual = start.requests > 0 ? std::min(start.requests, all) : all;
  while (const auto rate = next_rate(curve, wanted)) {
    const auto probe_with = [&](std::size_t count) {
      const RequestTrace requests = at_rate(requests_of(target, *target.trace, count, *rate), *rate);
      return measure_load_point(serve_all(target, requests), *rate, options);
    };
    LoadPoint probe = probe_with(requests_for(curve, *rate, usual, options));
    while (const auto more = requests_after(probe, curve, {usual, all}, options)) {
      probe = probe_with(*more);
    }
    if (on_load_point) {
      on_load_point(target, probe);
    }
    if (in_bounds(probe, curve.idle_ttft_s, options)) {
      require_enough_requests(probe, target, options);
    }
    curve.add(std::move(probe));
  }
  GoodputSearch out = conclude(target, options, std::move(curve));
  out.saturation = saturation;
  return out;
}

GoodputSearch search_slo(const SearchTarget& target, const GoodputOptions& options, const SearchStart& start,
                         const OnLoadPoint& on_load_point) {
  const std::size_t available = target.longer ? kMostGoodputRequests : target.trace->steady();
  const std::size_t usual = start.requests > 0 ? start.requests : kSloRequests;
  SloCurve curve{.start = start.rate > 0 ? start.rate : arrival_rate(*target.trace),
                 .step = start.step,
                 .usual = std::min(usual, available),
                 .available = available,
                 .most = options.most_requests,
                 .probes = {}};
  std::shared_ptr<const RequestTrace> longer;
  const auto with = [&](std::size_t count) -> const RequestTrace& {
    if (target.paced || count <= target.trace->steady()) {
      return *target.trace;
    }
    if (longer == nullptr || count > longer->steady()) {
      longer = target.longer(count);
    }
    return *longer;
  };
  while (const auto step = next_slo_step(curve, options)) {
    const RequestTrace requests =
        at_rate(requests_of(target, with(step->requests), step->requests, step->rate), step->rate);
    LoadPoint probe = measure_load_point(serve_all(target, requests), step->rate, options);
    if (on_load_point) {
      on_load_point(target, probe);
    }
    if (probe.slo.holds && step->requests >= available) {
      require_enough_requests(probe, target, options);
    }
    curve.add(std::move(probe));
  }
  GoodputSearch out = search_of(target);
  out.slo = slo_finding(curve, options);
  const LoadPoint* best = best_for_slo(curve);
  out.best = best != nullptr ? *best : curve.probes.front();
  out.curve = std::move(curve.probes);
  return out;
}

namespace {

// Just below a knee that another search found, with the requests that a rate needs which holds so many, and a reserve.
SearchStart start_near(const GoodputSearch& known, const GoodputOptions& options, const RequestTrace& trace) {
  const double needed = kFollowerReserve * options.min_requests_ratio * known.best.outstanding;
  return {.rate = known.knee.rate / std::sqrt(kFollowerStep),
          .step = kFollowerStep,
          .requests = std::max(trace.steady() / kLeastPart, static_cast<std::size_t>(std::ceil(needed)))};
}

// Where to begin: anywhere when the trace is too short to ask a part of it.
SearchStart pilot_start(const SearchTarget& target, const GoodputOptions& options, const OnLoadPoint& on_load_point) {
  const SearchStart anywhere{
      .step = kFirstStep, .saturation = saturation_of(target, options), .idle_ttft_s = idle_ttft_of(target)};
  const std::size_t requests = target.trace->steady() / kPilotPart;
  if (requests < kPilotLeast) {
    return anywhere;
  }
  const RequestTrace part = first_of(*target.trace, requests);
  SearchTarget pilot = target;
  pilot.trace = &part;
  GoodputOptions coarse = options;
  coarse.sensitivity.clear();
  coarse.rates.clear();
  coarse.tolerance = std::max(options.tolerance, kPilotTolerance);
  // The system still fills up while a part of the trace runs: the TTFT alone must do.
  coarse.min_requests_ratio = 0;
  coarse.min_completed = 1e-9;
  coarse.max_drift = 1e9;
  SearchStart out = start_near(search_goodput(pilot, coarse, anywhere, on_load_point), options, *target.trace);
  out.saturation = anywhere.saturation;
  out.idle_ttft_s = anywhere.idle_ttft_s;
  return out;
}

}  // namespace

namespace {

// `led`: the search of the target's first seed, for a first seed that of the first policy (under an SLO), or null.
GoodputSearch search_once(const SearchTarget& target, const GoodputSearch* led, const GoodputOptions& options,
                          const OnLoadPoint& on_load_point, const OnLoadPoint& quiet) {
  if (options.slo.any()) {
    const bool near = led != nullptr && led->slo.holds;
    const double step = !near ? kSloStep : target.seed_index > 0 ? kFollowerStep : kPolicyStep;
    const SearchStart start{.rate = near ? led->slo.rate / std::sqrt(step) : 0,
                            .step = step,
                            .requests = near ? static_cast<std::size_t>(led->best.requests) : 0};
    return search_slo(target, options, start, on_load_point);
  }
  if (options.count_all) {
    return search_goodput(target, options, {.step = kFirstStep}, on_load_point);
  }
  const SearchStart start =
      led != nullptr ? start_near(*led, options, *target.trace) : pilot_start(target, options, quiet);
  return search_goodput(target, options, start, on_load_point);
}

// Every rate is asked with as many requests as the protocol has, and all of them count.
GoodputSearch search_by_protocol(SearchTarget target, GoodputOptions options, const OnLoadPoint& on_load_point,
                                 const OnLoadPoint& quiet) {
  const std::size_t count = target.protocol_requests;
  refuse_if(
      options.slo.any(), "protocol.count",
      "`all` applies to the TTFT knee only; a search for an SLO needs a steady state. Remove `count`, or the SLO.");
  const RequestTrace part = first_of(target.longer ? *target.longer(count) : *target.trace, count);
  refuse_if(options.branches, "branches",
            "runs of `protocol` start empty and need not be steady, so there is one start. Remove --branches, "
            "or `protocol`.");
  refuse_if(part.requests.size() < count, {target.trace->source, 0, "protocol.requests"},
            fmt::format("the recording has {} requests, and a run is to have {}.", part.requests.size(), count));
  const RequestTrace run = first_of(part, count);
  target.trace = &run;
  options.count_all = true;
  return search_once(target, nullptr, options, on_load_point, quiet);
}

// With its branches where they are asked for.
GoodputSearch search_with_branches(const SearchTarget& target, const GoodputSearch* led, const GoodputOptions& options,
                                   const OnLoadPoint& on_load_point, const OnLoadPoint& quiet) {
  GoodputSearch out = search_once(target, led, options, on_load_point, quiet);
  if (options.branches && !target.aligned) {
    const auto first = [&](std::size_t count, double rate) {
      const bool more = target.longer && !target.paced && count > target.trace->steady();
      return requests_of(target, more ? *target.longer(count) : *target.trace, count, rate);
    };
    const auto told = [&](const LoadPoint& p) {
      if (on_load_point) {
        on_load_point(target, p);
      }
    };
    add_branches({[&](const RequestTrace& trace) { return serve_all(target, trace); }, first, told}, options, out);
  }
  return out;
}

// On a generated trace the number of requests is the search's own: what a rate takes, whatever the scenario says.
GoodputSearch search_target(SearchTarget target, const GoodputSearch* led, const GoodputOptions& options,
                            const OnLoadPoint& on_load_point, const OnLoadPoint& quiet) {
  if (target.protocol_requests > 0) {
    return search_by_protocol(std::move(target), options, on_load_point, quiet);
  }
  if (!target.longer) {
    return search_with_branches(target, led, options, on_load_point, quiet);
  }
  std::shared_ptr<const RequestTrace> made = target.longer(options.slo.any() ? kSloRequests : kKneeRequests);
  for (;;) {
    target.trace = made.get();
    try {
      return search_with_branches(target, led, options, on_load_point, quiet);
    } catch (const TooFewRequests& e) {
      if (e.needed > kMostGoodputRequests) {
        throw;
      }
      made = target.longer(e.needed);
    }
  }
}

}  // namespace

std::vector<GoodputSearch> search_all(const std::vector<SearchTarget>& targets, const GoodputOptions& options,
                                      const OnLoadPoint& on_load_point, const JobStore* store,
                                      const std::string& key_prefix) {
  validate(options);
  const std::vector<std::string> keys = mapped(targets, [&](const SearchTarget& target) {
    return fmt::format("{}{}-{}{}", key_prefix, target.policy, target.seed_index + 1, target.aligned ? "-aligned" : "");
  });
  const Shard shard = store != nullptr ? store->shard() : Shard{};
  std::vector<bool> wanted(targets.size());  // by this shard, with the searches that lead its own
  for (const std::size_t i : jobs_of(shard, targets.size())) {
    wanted[i] = wanted[i - static_cast<std::size_t>(targets[i].seed_index)] = true;
  }
  std::vector<std::size_t> first, others;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (wanted[i]) {
      (targets[i].seed_index == 0 ? first : others).push_back(i);
    }
  }
  JobRunner<GoodputSearch> runner(
      keys, {store, [](const GoodputSearch& search) { return stored_text(search); }, stored_goodput_search});
  const auto search = [&](std::size_t i, const GoodputSearch* led, const Abandoned& abandoned) {
    return search_target(targets[i], led, options, abandonable(on_load_point, abandoned), abandonable({}, abandoned));
  };
  const auto led_by = [&](const GoodputSearch* led) {
    return [&search, led](std::size_t i, const Abandoned& abandoned) { return search(i, led, abandoned); };
  };
  const bool several = std::ranges::count(targets, 0, &SearchTarget::seed_index) > 1;
  if (options.slo.any() && several) {
    const std::size_t leader = 0;
    runner.run({leader}, {}, led_by(nullptr));
    std::vector<std::size_t> led = first;
    std::copy_if(others.begin(), others.end(), std::back_inserter(led),
                 [&](std::size_t i) { return i == leader + static_cast<std::size_t>(targets[i].seed_index); });
    runner.run(led, {}, led_by(&*runner[leader]));
  }
  runner.run(first, {}, led_by(nullptr));
  runner.run(others, {}, [&](std::size_t i, const Abandoned& abandoned) {
    return search(i, &*runner[i - static_cast<std::size_t>(targets[i].seed_index)], abandoned);
  });
  if (!shard.whole()) {
    throw ShardFinished();
  }
  return runner.take();
}

namespace {

// `control` for a run of this trace that tells how far it is.
RunControl told_control(const RunControl& control, const OnServing& on_serving, ServedSoFar so_far,
                        const RequestTrace& trace) {
  const std::size_t first = trace.steady() > 1 ? trace.ramp : 0;
  const bool at_once = trace.requests.back().arrival <= trace.requests[first].arrival;
  so_far.rate = at_once ? 0 : arrival_rate(trace);
  RunControl out = control;
  out.on_progress = [&on_serving, so_far](const Progress& p) mutable {
    so_far.completed = p.completed;
    so_far.requests = p.requests;
    on_serving(so_far);
  };
  return out;
}

}  // namespace

SearchTarget target_of(const Scenario& scenario, std::shared_ptr<const PreparedRun> prepared, int seed_index,
                       const RunControl& control, const OnServing& on_serving) {
  const PreparedInstance& last = prepared->last();
  SearchTarget out;
  out.policy = last.policy.label;
  out.seed_index = seed_index;
  out.seed = static_cast<std::uint64_t>(scenario.seed);
  out.trace = &scenario.requests;
  out.protocol_requests = static_cast<std::size_t>(scenario.protocol.requests);
  if (scenario.make_requests) {
    out.longer = [&scenario](std::size_t count) {
      return std::make_shared<const RequestTrace>(scenario.make_requests(count));
    };
  }
  out.paced = scenario.make_paced;
  out.kv_lost_share = last.memory.extras_loss;
  out.kv_tokens_per_rank = last.serving.kv_blocks * last.serving.kv_block_tokens;
  out.serve = [&scenario, &control, on_serving, policy = out.policy, seed = out.seed,
               prepared = std::move(prepared)](const RequestTrace& trace) {
    return run_prepared(scenario, *prepared, trace,
                        on_serving ? told_control(control, on_serving, {policy, seed}, trace) : control);
  };
  return out;
}

void check_lasting(const Scenario& scenario) {
  const std::vector<Fault>& faults = scenario.faults;
  refuse_if(std::any_of(faults.begin(), faults.end(), [](const Fault& f) { return f.at > Ticks{} || !f.for_good(); }),
            "faults",
            "a search runs each rate for as long as its verdict needs, so a fault that comes or goes at a time "
            "would be in some of the runs alone. Use at: 0s without until: the rate is then that of the "
            "hardware with the fault. `epsim run` and `epsim compare` show one that comes and goes.");
  refuse_if(scenario.loads != nullptr && scenario.loads->changes(), "loads",
            "a search runs each rate for as long as its verdict needs, so loads that change at a time would be "
            "those of some of the runs alone. Search with the loads of each time; `epsim run` and `epsim "
            "compare` show the change.");
}

void check_searched(const Scenario& scenario) {
  refuse_if(scenario.requests.closed_loop.concurrency > 0, "requests.kind",
            "the clients of a closed loop send at the rate at which they are answered, so there is no rate to "
            "search. Compare concurrencies with `epsim sweep --vary requests.concurrency=16,64,256`, or give "
            "requests a rate (kind: poisson).");
  check_lasting(scenario);
}

std::vector<SearchTarget> targets_of(const std::vector<Scenario>& by_seed, const RunControl& control, PlanCache* plans,
                                     const OnServing& on_serving) {
  check_searched(by_seed.front());
  const std::size_t policies = by_seed.front().policies.size(), seeds = by_seed.size();
  std::vector<SearchTarget> out(policies * seeds);
  run_jobs(all_jobs(out.size()), {}, [&](std::size_t i, const Abandoned&) {
    const Scenario& scenario = by_seed[i % seeds];
    const PolicyChoice& policy = scenario.policies[i / seeds];
    out[i] = target_of(scenario, std::make_shared<const PreparedRun>(prepare_run(scenario, policy, plans)),
                       static_cast<int>(i % seeds), control, on_serving);
  });
  return out;
}

GoodputOptions by_protocol(GoodputOptions options, const Scenario& scenario) {
  options.count_all = scenario.protocol.requests > 0;
  if (!options.slo.any()) {
    options.slo = scenario.protocol.slo;
  }
  const std::vector<Request>& requests = scenario.requests.requests;
  const bool tpot =
      std::ranges::any_of(options.slo.terms, [](const SloTerm& term) { return term.metric == LatencyMetric::kTpot; });
  const bool single = std::ranges::all_of(requests, [](const Request& r) { return r.output_tokens <= 1; });
  refuse_if(tpot && single && !requests.empty(), "slo", "answers of one token have no time per output token.");
  return options;
}

void validate(const GoodputOptions& o) {
  const auto require = [](bool holds, const char* option, const char* problem) { refuse_if(!holds, option, problem); };
  const auto share = [](double value) { return value >= 0 && value < 1; };
  require(std::isfinite(o.k) && o.k > 1, "k", "the knee's TTFT is k times that of an idle instance: k must exceed 1.");
  for (const double k : o.sensitivity) {
    require(std::isfinite(k) && k > 1, "sensitivity", "every k must exceed 1.");
  }
  require(std::is_sorted(o.sensitivity.begin(), o.sensitivity.end()), "sensitivity", "the k must ascend.");
  require(o.tolerance > 0 && o.tolerance < 1, "tolerance",
          "the relative tolerance must be between 0 and 1, as in 0.02.");
  require(o.min_completed > 0 && o.min_completed <= 1, "min-completed",
          "the share must be between 0 and 1, as in 0.95.");
  require(share(o.warmup_share) && share(o.drain_share) && o.warmup_share + o.drain_share <= 0.8, "warmup",
          "warm-up and drain are shares of the requests, together at most 0.8, as in 0.1 each.");
  require(o.max_drift > 0 && std::isfinite(o.max_drift), "max-drift", "the allowed growth must be positive.");
  require(o.min_requests_ratio >= 0 && std::isfinite(o.min_requests_ratio), "min-requests-ratio",
          "requests per request in the system: a number that is not negative.");
  require(o.most_requests >= kSloRequests, "max-requests",
          "a rate starts with 1,000 requests, so the most it takes must be at least as many.");
  for (const double rate : o.rates) {
    require(std::isfinite(rate) && rate > 0, "rates", "rates to probe must be positive.");
  }
}

}  // namespace epsim
