#include "sim/study/capacity_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "sim/cluster/run_policy.h"
#include "sim/cluster/simulate.h"
#include "sim/core/fingerprint.h"
#include "sim/scenario/read_scenario.h"
#include "sim/study/capacity_ask.h"
#include "sim/study/capacity_scenario.h"
#include "sim/study/goodput.h"
#include "sim/study/goodput_store.h"
#include "sim/study/held_loads.h"
#include "sim/study/load_point.h"
#include "sim/study/prefix_share.h"

namespace epsim {
namespace {

constexpr int kAnswerFormat = 14;
constexpr std::size_t kAloneRequests = 3;
constexpr std::size_t kAloneOf = 1000;        // requests of which the shortest is taken
constexpr double kAloneGap = 10'000;          // seconds between them
constexpr double kShareFillings = 0.5;        // of GoodputOptions::min_requests_ratio, for an instance at its share
constexpr std::size_t kUsualRequests = 2000;  // of conversations, to tell their mean length

// Behind the ramp.
double mean_tokens(const RequestTrace& trace, std::int32_t Request::*tokens) {
  double sum = 0;
  for (const Request& r : std::span(trace.requests).subspan(trace.ramp)) {
    sum += r.*tokens;
  }
  return sum / static_cast<double>(trace.steady());
}

// What one of `stride` instances gets. A recorded trace that would leave fewer than `least` requests has a shorter stride.
void thin_out(Scenario& scenario, int one_in, std::size_t least) {
  const bool by_prefix = scenario.deployment.router == Router::kCacheAware;
  const auto every = [by_prefix](const RequestTrace& trace, std::size_t stride) {
    if (by_prefix && trace.prefixes.known()) {
      return trace.select(prefix_share(trace, stride));
    }
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < trace.requests.size(); i += stride) {
      positions.push_back(i);
    }
    return trace.select(positions);
  };
  auto stride = static_cast<std::size_t>(one_in);
  const auto thinned = [every, stride](auto make) {
    return [=](std::size_t count, auto... pace) { return every(make(count * stride, pace...), stride); };
  };
  if (scenario.make_requests) {
    scenario.make_requests = thinned(scenario.make_requests);
    if (scenario.make_paced) {
      scenario.make_paced = thinned(scenario.make_paced);
    }
    scenario.requests = scenario.make_requests(least);
  } else {
    stride = std::clamp<std::size_t>(scenario.requests.requests.size() / least, 1, stride);
    scenario.requests = every(scenario.requests, stride);
  }
}

// Draws of routing are held for several steps, but those of recordings and of loads that have it in their keys.
void hold_draws(Scenario& scenario) {
  if (!scenario.loads->recorded() && scenario.loads->hold_steps() == 1) {
    scenario.loads = std::make_shared<HeldLoads>(scenario.loads);
  }
}

std::unique_ptr<ReadyDeployment> ready(const CapacityQuestion& question, const std::vector<CapacityPool>& pools,
                                       PlanCache* plans, int one_in = 1, bool held = true) {
  auto out = std::make_unique<ReadyDeployment>();
  Scenario& scenario = out->scenario;
  scenario = read_scenario(capacity_scenario(question, pools), {pools.front().design.policy});
  // Conversations have grown by then to their usual length.
  const RequestTrace usual = scenario.requests.ramp > 0 ? scenario.make_requests(kUsualRequests) : scenario.requests;
  out->input_tokens = mean_tokens(usual, &Request::input_tokens);
  out->output_tokens = mean_tokens(usual, &Request::output_tokens);
  if (one_in > 1) {
    thin_out(scenario, one_in, question.first_requests);
  }
  if (held) {
    hold_draws(scenario);
  }
  out->prepared = prepare_run(out->scenario, out->scenario.policies.front(), plans);
  return out;
}

// Token-seconds of KV memory that a request holds at least, on average: as if it were alone, answers half grown.
double held_tokens(const RequestTrace& trace, const LoadPoint& alone, InstanceRole role, bool cut) {
  const double ttft = role == InstanceRole::kDecode ? 0 : alone.ttft_s.mean;
  double sum = 0;
  for (const Request& r : trace.requests) {
    const double prompt = trace.prefixes.known() ? 0 : r.input_tokens;  // others may hold the same
    const double answer = cut ? 0 : r.output_tokens;
    sum += prompt * ttft + answer * alone.tpot_s.mean * (prompt + answer / 2);
  }
  return sum / static_cast<double>(trace.requests.size());
}

// Requests that are alone, none of which any other of the trace is shorter than: what they cannot keep, none can. Of
// prompts of which a prefix cache may have all, one token is left.
RequestTrace shortest_alone(const RequestTrace& trace) {
  Request least = trace.requests.front();
  for (const Request& r : trace.requests) {
    least.input_tokens = trace.prefixes.known() ? 1 : std::min(least.input_tokens, r.input_tokens);
    least.output_tokens = std::min(least.output_tokens, r.output_tokens);
  }
  RequestTrace out;
  out.source = trace.source;
  for (std::size_t i = 0; i < kAloneRequests; ++i) {
    least.arrival = to_ticks(Seconds(kAloneGap * static_cast<double>(i)));
    out.requests.push_back(least);
  }
  return out;
}

std::string fingerprint_of(const std::vector<CapacityPool>& pools, int one_in, double growth = 0) {
  Fingerprint out;
  for (const CapacityPool& pool : pools) {
    out.add(name_of(pool.design));
    out.add(static_cast<std::int64_t>(pool.instances));
  }
  out.add(fmt::format("{} {}", one_in, growth));
  return out.hex();
}

// Weights of experts and FFNs that a token passes, each of which is a multiplication and an addition.
double ffn_weights_of_token(const MoeSpec& model) {
  const double experts = static_cast<double>(model.moe_intermediate) * model.top_k + model.shared_intermediate;
  const double dense = static_cast<double>(model.dense_intermediate) * model.dense_layers();
  return 3.0 * model.hidden * (experts * model.moe_layers() + dense);
}

double peak_rate(const MoeSpec& model, const GpuSpec& gpu) {
  return std::max(gpu.product_rate(model.dtype), gpu.bf16_peak).count();
}

}  // namespace

EPSIM_STORED(CapacityAnswer, point, busy, instances, kv_tokens, input_tokens, output_tokens, held_token_s, extrapolated,
             carried_over, refused);

CapacityAnswer CapacityRuns::kept(const std::string& what, const std::vector<CapacityPool>& pools, int one_in,
                                  double growth, const std::function<CapacityAnswer()>& run) {
  const std::string name = what + "-" + fingerprint_of(pools, one_in, growth);
  {
    const std::lock_guard lock(turn_);
    if (const auto known = answers_.find(name); known != answers_.end()) {
      return known->second;
    }
  }
  JobRunner<CapacityAnswer> runner(
      {name}, {control_.store, [](const CapacityAnswer& a) { return store_text(kAnswerFormat, a); },
               [](const std::string& text) { return read_stored<CapacityAnswer>(text, kAnswerFormat); }});
  runner.run({0}, {.stop = control_.stop}, [&](std::size_t, const Abandoned&) {
    try {
      return run();
    } catch (const RequestTooLong& e) {
      CapacityAnswer refused;
      refused.refused = refusal(e);
      refused.kv_tokens = e.pool_tokens;
      return refused;
    } catch (const InputError& e) {
      CapacityAnswer refused;
      refused.refused = refusal(e);
      return refused;
    }
  });
  CapacityAnswer out = *runner[0];
  ++runs_;
  const std::lock_guard lock(turn_);
  answers_.emplace(name, out);
  if (control_.on_answer) {
    control_.on_answer(pools.back().design, pools.back().instances, out);
  }
  return out;
}

const CapacityAnswer* CapacityRuns::whole(const std::vector<CapacityPool>& pools) const {
  const auto known = wholes_.find(fingerprint_of(pools, 1));
  return known == wholes_.end() ? nullptr : &known->second;
}

void CapacityRuns::set_whole(const std::vector<CapacityPool>& pools, CapacityAnswer answer) {
  wholes_[fingerprint_of(pools, 1)] = std::move(answer);
}

CapacityAnswer CapacityRuns::ask(const std::vector<CapacityPool>& pools, int one_in, const CapacityAnswer& alone,
                                 AskedFor what, double growth) {
  constexpr const char* kNames[] = {"ask", "prompts", "long", "whole"};
  const bool cut = what == AskedFor::kPrompts, whole = what == AskedFor::kDeployment,
             few = cut || what == AskedFor::kInstance;
  // Prompts alone come at the highest rate at which clients can send them: each answer takes as long as when it is alone.
  const double clients = question_.in_flight * (1 + growth) / one_in;
  const double rate =
      clients > 0 && cut ? clients / this->alone(pools).point.e2e_s.mean : question_.rate * (1 + growth) / one_in;
  return kept(kNames[static_cast<std::size_t>(what)], pools, one_in, growth, [&] {
    const auto deployment = ready(question_, pools, &plans_, one_in, !whole);
    Asked asked{*deployment, alone.point, rate, cut ? 0 : clients, cut, few, question_.options, control_.stop};
    asked.options.min_requests_ratio *= few ? kShareFillings : 1;
    const std::size_t instances = whole ? pools_of(deployment->scenario).back().instances : 1;
    return answer_to(asked, question_, question_.most_requests * instances);
  });
}

CapacityAnswer CapacityRuns::alone(const std::vector<CapacityPool>& pools, bool cut) {
  return kept(cut ? "prompts-alone" : "alone", pools, 1, 0, [&] {
    const auto deployment = ready(question_, pools, &plans_);
    const RequestTrace all = trace_of(deployment->scenario, kAloneOf, cut), trace = shortest_alone(all);
    RunControl control;
    control.stop = control_.stop;
    const RunResult run = whole_run(run_prepared(deployment->scenario, deployment->prepared, trace, control));
    CapacityAnswer out = answer_of(*deployment);
    out.input_tokens = mean_tokens(trace, &Request::input_tokens);
    out.output_tokens = mean_tokens(trace, &Request::output_tokens);
    LoadPoint& p = out.point;
    p.ttft_s = run.latency.ttft_s;
    p.tpot_s = run.latency.tpot_s;
    p.e2e_s = run.latency.e2e_s;
    const Slo slo = options_for(question_.options, cut).slo;
    p.slo.excess = -1e9;
    for (std::size_t t = 0; t < slo.terms.size(); ++t) {
      const SloTerm& term = slo.terms[t];
      const Summary& is = term.metric == LatencyMetric::kTtft   ? p.ttft_s
                          : term.metric == LatencyMetric::kTpot ? p.tpot_s
                                                                : p.e2e_s;
      if (const double excess = std::log(is.mean / term.bound.count()); excess > p.slo.excess) {
        p.slo.excess = excess;
        p.slo.limit = limit_in(question_.options.slo, cut, static_cast<int>(t));
      }
    }
    p.slo.holds = p.slo.excess <= 0;
    out.held_token_s = held_tokens(all, p, pools.back().design.role, cut);
    return out;
  });
}

int CapacityRuns::bound(const CapacityPool& pool) {
  const InstanceRole role = pool.design.role;
  std::vector<CapacityPool> pools{pool};
  if (role != InstanceRole::kWhole) {
    pools.push_back(pool);
  }
  const auto deployment = ready(question_, pools, &plans_);
  const Scenario& s = deployment->scenario;
  if (s.requests.prefixes.known()) {
    return 1;  // of prompts, what a prefix cache saves is not computed
  }
  const double input = mean_tokens(s.requests, &Request::input_tokens),
               output = mean_tokens(s.requests, &Request::output_tokens);
  const double tokens = role == InstanceRole::kPrefill  ? input
                        : role == InstanceRole::kDecode ? output - 1
                                                        : input + output - 1;
  const double flops = 2 * ffn_weights_of_token(s.model) * tokens * question_.rate;
  const InstancePool instance = pools_of(s).back();
  return std::max(1, static_cast<int>(
                         std::ceil(flops / (instance.cluster.gpus() * peak_rate(s.model, instance.cluster.node.gpu)))));
}

void CapacityRuns::settled(const CapacityDesign& design) {
  if (control_.on_settled) {
    const std::lock_guard lock(turn_);
    if (settled_.insert(name_of(design)).second) {
      control_.on_settled();
    }
  }
}

void CapacityRuns::found(const std::vector<CapacityPool>& pools) {
  if (control_.on_found) {
    const std::lock_guard lock(turn_);
    control_.on_found(pools);
  }
}

std::vector<GoodputSearch> CapacityRuns::search(const std::vector<CapacityPool>& pools, int one_in) {
  std::vector<GoodputSearch> out;
  const std::string key = "highest-" + fingerprint_of(pools, one_in);
  for (int seed = 1; control_.store != nullptr && seed <= question_.seeds; ++seed) {
    const auto text = control_.store->load(fmt::format("{}-{}-{}", key, pools.front().design.policy, seed));
    if (const auto search = text ? stored_goodput_search(*text) : std::nullopt) {
      out.push_back(*search);
    }
  }
  if (std::ssize(out) == question_.seeds) {
    return out;
  }
  std::vector<Scenario> by_seed;
  for (int seed = 1; seed <= question_.seeds; ++seed) {
    Config config = capacity_scenario(question_, pools);
    config.set(fmt::format("seed={}", seed));
    by_seed.push_back(read_scenario(config, {pools.front().design.policy}));
    Scenario& scenario = by_seed.back();
    thin_out(scenario, one_in, question_.first_requests);
    hold_draws(scenario);
    scenario.requests = at_rate(scenario.requests, question_.rate / one_in);  // where the search begins
  }
  RunControl control;
  control.stop = control_.stop;
  return search_all(targets_of(by_seed, control, &plans_), question_.options, {}, control_.store, key + "-");
}

}  // namespace epsim
