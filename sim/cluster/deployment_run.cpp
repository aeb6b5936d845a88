#include "sim/cluster/deployment_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cluster/simulate.h"
#include "sim/core/check.h"

namespace epsim {
namespace {

// One instance's price model and the scenario and plan that it stands on.
struct Running {
  const Scenario* scenario;
  const PolicyChoice* policy;
  const PreparedRun* prepared;
  InstancePricing pricing;
};

std::vector<Scenario> pool_scenarios(const Scenario& s) {
  std::vector<Scenario> out;
  for (const InstancePool& pool : s.deployment.pools) {
    out.push_back(scenario_of(s, pool));
  }
  return out;
}

// What the instances of a pool run under. Policies that act in every step are for prompts (Libra: "prefill only"): on
// decode instances the experts stay at home.
PolicyChoice policy_of(const Scenario& pool, PolicyChoice policy) {
  if (pool.serving.role == InstanceRole::kDecode) {
    policy.per_step = nullptr;
  }
  return policy;
}

InstanceSpec spec_of(Running& running, int instance) {
  InstanceSpec spec;
  spec.options = running.prepared->serving;
  spec.pricer = &running.pricing.pricer();
  tell_losses(*running.scenario, *running.policy, running.pricing, spec);
  if (spec.options.role != InstanceRole::kWhole) {
    const KvLanes lanes = kv_lanes(*running.scenario);
    spec.ranks_per_lane = lanes.ranks_per_lane;
    spec.transfer_time = [lanes, scenario = running.scenario](std::int64_t tokens, double speed) {
      return lanes.transfer_time(*scenario, tokens, speed);
    };
    if (std::vector<Fault> own = faults_of(*running.scenario, instance); !own.empty()) {
      spec.lane_speed = [lanes, scenario = running.scenario, faults = std::move(own)](int lane, Ticks now) {
        return lanes.speed(*scenario, faults, lane, now);
      };
    }
  }
  return spec;
}

void append_links(StepTotals& all, const StepTotals& one, std::size_t instance) {
  for (const LinkTotals& link : one.links) {
    all.links.push_back(link);
    all.links.back().name = fmt::format("i{}.{}", instance, link.name);
  }
}

// Rows (layers, or layers and directions) of `one` behind those of `all`, which are so and so wide: GPUs or links.
std::vector<double> side_by_side(const std::vector<double>& all, std::ptrdiff_t all_width,
                                 const std::vector<double>& one, std::ptrdiff_t one_width) {
  std::vector<double> out;
  out.reserve(all.size() + one.size());
  const std::ptrdiff_t rows = std::ssize(one) / one_width;
  for (std::ptrdiff_t row = 0; row < rows; ++row) {
    if (all_width > 0) {
      out.insert(out.end(), all.begin() + row * all_width, all.begin() + (row + 1) * all_width);
    }
    out.insert(out.end(), one.begin() + row * one_width, one.begin() + (row + 1) * one_width);
  }
  return out;
}

void append_totals(StepTotals& all, const StepTotals& one, std::size_t instance) {
  all.gpu_load = side_by_side(all.gpu_load, all.gpus, one.gpu_load, one.gpus);
  all.gpu_busy_s = side_by_side(all.gpu_busy_s, all.gpus, one.gpu_busy_s, one.gpus);
  all.steps += one.steps;
  all.gpus += one.gpus;
  all.assignments_routed += one.assignments_routed;
  all.bottleneck_s = side_by_side(all.bottleneck_s, std::ssize(all.links), one.bottleneck_s, std::ssize(one.links));
  append_links(all, one, instance);
  if (all.layers.empty()) {
    all.layers = one.layers;
    return;
  }
  EPSIM_CHECK(all.layers.size() == one.layers.size(), "instances of one model have the same layers");
  for (std::size_t l = 0; l < all.layers.size(); ++l) {
    LayerTotals& sum = all.layers[l];
    const LayerTotals& layer = one.layers[l];
    for (std::size_t p = 0; p < sum.by_part.size(); ++p) {
      sum.by_part[p] += layer.by_part[p];
    }
    sum.straggler += layer.straggler;
    sum.balancedness_sum += layer.balancedness_sum;
    sum.balancedness_min = std::min(sum.balancedness_min, layer.balancedness_min);
  }
}

// What prompts leave in the cache, on all GPUs of a rank together.
Bytes cache_of(const MoeSpec& model, std::int64_t prompts, std::int64_t tokens) {
  return model.kv_bytes_per_token(1) * static_cast<double>(tokens) +
         model.kv_bytes_per_sequence(1) * static_cast<double>(prompts);
}

// What prompts on their way put on the lanes of an instance (KvLanes), which no exchange of tokens waits for; lanes
// that carried nothing are left out.
void append_lanes(StepTotals& all, const Scenario& s, std::size_t instance, const TransferStats& transfers) {
  const auto before = std::ssize(all.links);
  const BytesPerSecond rate = kv_lanes(s).rate;
  const auto add = [&](const std::vector<TransferStats::Carried>& carried, const char* way) {
    for (std::size_t lane = 0; lane < carried.size(); ++lane) {
      if (carried[lane].tokens > 0) {
        all.links.push_back({fmt::format("i{}.kv_lane{}.{}", instance, lane, way), rate,
                             cache_of(s.model, carried[lane].prompts, carried[lane].tokens)});
      }
    }
  };
  add(transfers.sent[instance], "out");
  add(transfers.received[instance], "in");
  if (const auto lanes = std::ssize(all.links) - before; lanes > 0) {
    const std::vector<double> none(all.layers.size() * 2 * static_cast<std::size_t>(lanes), 0.0);
    all.bottleneck_s = side_by_side(all.bottleneck_s, before, none, lanes);
  }
}

void add(ConservationReport& sum, const ConservationReport& one) {
  sum.assignments_routed += one.assignments_routed;
  sum.assignments_executed += one.assignments_executed;
  sum.bytes_sent += one.bytes_sent;
  sum.bytes_received += one.bytes_received;
}

// The plans of one instance behind those of the others.
void append(RebalanceReport& all, const RebalanceReport& one, int instance) {
  all.active = all.active || one.active;
  all.gained += one.gained;
  all.idle_moving += one.idle_moving;
  for (const RebalanceEvent& e : one.events) {
    all.events.push_back(e);
    all.events.back().instance = instance;
  }
}

std::vector<Running> start_models(const std::vector<Scenario>& scenarios, const std::vector<PolicyChoice>& policies,
                                  const Scenario& s, const PreparedRun& prepared, StepRecorder* recorder) {
  std::vector<Running> out;
  for (std::size_t p = 0; p < scenarios.size(); ++p) {
    for (int i = 0; i < s.deployment.pools[p].instances; ++i) {
      const PreparedRun& plan = prepared.pools[p];
      const auto number = static_cast<int>(out.size());
      out.push_back(
          {&scenarios[p], &policies[p], &plan, price_instance(scenarios[p], policies[p], plan, recorder, number)});
    }
  }
  return out;
}

}  // namespace

KvLanes kv_lanes(const Scenario& s) {
  const NodeSpec& node = s.cluster.node;
  const int ranks_per_node = std::max(1, node.gpus / s.parallelism.attention_tp);
  KvLanes out;
  out.per_node = std::min(ranks_per_node, node.nics);
  out.ranks_per_lane = (ranks_per_node + out.per_node - 1) / out.per_node;
  out.rate = node.node_rate() / static_cast<double>(out.per_node);
  return out;
}

Seconds KvLanes::transfer_time(const Scenario& s, std::int64_t tokens, double speed) const {
  const Bytes bytes = cache_of(s.model, 1, tokens);
  return s.network.inter.time(CollectiveKind::kAllToAll, 2, bytes / (rate * speed)).time;
}

double KvLanes::speed(const Scenario& s, std::span<const Fault> faults, int lane, Ticks now) const {
  const StepConditions at = conditions_at(faults, now, s.cluster);
  const auto gpus = static_cast<std::size_t>(ranks_per_lane * s.parallelism.attention_tp);
  double slowest = 1.0;
  for (std::size_t g = static_cast<std::size_t>(lane) * gpus; g < static_cast<std::size_t>(lane + 1) * gpus; ++g) {
    const auto of = [g](const std::vector<double>& speeds) { return g < speeds.size() ? speeds[g] : 1.0; };
    slowest = std::min(slowest, of(at.link_speed) * of(at.nic_speed));
  }
  return slowest;
}

PreparedRun prepare_deployment(const Scenario& s, const PolicyChoice& policy) {
  std::vector<PreparedRun> pools;
  for (const Scenario& own : pool_scenarios(s)) {
    pools.push_back(prepare_run(own, policy_of(own, policy)));
  }
  PreparedRun out = pools.back();
  out.pools = std::move(pools);
  return out;
}

RunResult run_deployment(const Scenario& s, const PolicyChoice& policy, const PreparedRun& prepared,
                         const RequestTrace& requests, const RunControl& control) {
  const std::vector<Scenario> scenarios = pool_scenarios(s);
  std::vector<PolicyChoice> policies;
  std::transform(scenarios.begin(), scenarios.end(), std::back_inserter(policies),
                 [&](const Scenario& own) { return policy_of(own, policy); });
  std::vector<Running> running = start_models(scenarios, policies, s, prepared, control.recorder);
  std::vector<InstanceSpec> specs;
  for (Running& r : running) {
    specs.push_back(spec_of(r, static_cast<int>(specs.size())));
  }
  RunResult result = simulate(requests, specs, s.deployment.router, control, s.deployment.retry_limit);
  ConservationReport sent = result.conservation;
  StepTotals all;
  RebalanceReport rebalance;
  RegroupReport regroup;
  int gpus = 0;
  std::vector<std::string> plans;
  for (std::size_t i = 0; i < running.size(); ++i) {
    result.conservation = {};
    describe_run(*running[i].scenario, *running[i].policy, *running[i].prepared, running[i].pricing,
                 result.instances[i].time.total, result);
    plans.push_back(result.plan_summary);
    add(sent, result.conservation);
    append_totals(all, result.detail, i);
    append_lanes(all, *running[i].scenario, i, result.transfers);
    append(rebalance, result.rebalance, static_cast<int>(i));
    regroup += result.regroup;
    gpus += running[i].scenario->cluster.gpus();
  }
  result.conservation = sent;
  result.detail = std::move(all);
  result.rebalance = std::move(rebalance);
  result.regroup = regroup;
  if (policy.per_step != nullptr && plans.front() != plans.back()) {
    result.plan_summary = fmt::format("prefill: {}; decode: {}", plans.front(), plans.back());
  }
  result.gpus = gpus;
  return result;
}

}  // namespace epsim
