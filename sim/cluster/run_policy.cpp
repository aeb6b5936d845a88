#include "sim/cluster/run_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "sim/cluster/deployment_run.h"
#include "sim/cluster/simulate.h"
#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/step/step_screen.h"

namespace epsim {
namespace {

// physics.md section 9: what was routed was executed, and what was sent was received. The loads are single precision.
ConservationReport check_conservation(const StepTotals& totals, ConservationReport report) {
  report.assignments_routed = totals.assignments_routed;
  report.assignments_executed = std::accumulate(totals.gpu_load.begin(), totals.gpu_load.end(), 0.0);
  for (const LinkTotals& link : totals.links) {
    report.bytes_sent += link.end == LinkEnd::kSends ? link.bytes.count() : 0.0;
    report.bytes_received += link.end == LinkEnd::kReceives ? link.bytes.count() : 0.0;
  }
  const auto agree = [](double a, double b, double tolerance) {
    return std::fabs(a - b) <= tolerance * std::max(1.0, std::max(a, b));
  };
  EPSIM_CHECK(
      agree(report.assignments_routed, report.assignments_executed, 1e-4),
      fmt::format("{} assignments routed, {} executed", report.assignments_routed, report.assignments_executed));
  EPSIM_CHECK(agree(report.bytes_sent, report.bytes_received, 1e-9),
              fmt::format("{} bytes sent, {} received", report.bytes_sent, report.bytes_received));
  return report;
}

void check_links(const StepTotals& totals, Seconds busy) {
  for (const LinkTotals& link : totals.links) {
    EPSIM_CHECK(link.bytes / link.rate <= busy * (1 + 1e-9), fmt::format("{} is more than 100 % busy", link.name));
  }
}

MemoryReport report_memory(const MemoryBreakdown& m, const Placement& placement, std::string_view buffers_item,
                           Bytes buffers) {
  MemoryReport report;
  report.items = {{"attention (on every GPU)", m.weights.attention_replicated},
                  {"attention (split by heads)", m.weights.attention_split},
                  {"shared experts", m.weights.shared_experts},
                  {"dense FFN", m.weights.dense_ffn},
                  {"router", m.weights.router},
                  {"embedding and head", m.weights.embedding},
                  {std::string(kRoutedExpertsItem), m.experts_base},
                  {std::string(kExtraCopiesItem), m.expert_copies},
                  {"reserves", m.reserves - buffers},
                  {std::string(buffers_item), buffers},
                  {"KV cache", m.kv_pool}};
  report.kv_pool = m.kv_pool;
  report.kv_bytes_per_token = m.kv_per_token;
  report.copies = m.expert_copies;
  report.lost_to_copies = m.copies_loss;
  for (int g = 0; g < placement.gpus(); ++g) {
    report.over_mean.push_back(m.expert * static_cast<double>(placement.resident(g)) - m.experts_base);
  }
  return report;
}

std::string summarize_plan(const PreparedRun& run, const PolicyChoice& policy, const MoeSpec& model) {
  if (policy.per_step != nullptr) {
    return fmt::format("{} experts per GPU and layer at home, others by step ({:.3f} GiB of buffers per GPU)",
                       model.experts / run.plan.gpus, to_gib(run.buffers));
  }
  const int moe_tp = run.placement.gpus() / run.plan.gpus;
  const std::string holder = moe_tp == 1 ? "GPU" : fmt::format("EP rank of {} GPUs", moe_tp);
  const int copies = run.plan.copies_on_fullest_gpu();
  if (copies <= 0) {
    return fmt::format("{} experts per {} and layer, no extra copies", model.experts / run.plan.gpus, holder);
  }
  return fmt::format("{} extra copies per {} over {} layers ({:.3f} GiB per GPU)", copies, holder,
                     run.placement.layers(), to_gib(model.expert_bytes() * copies / moe_tp));
}

// A layer's experts of one GPU, the fullest: what engines receive weights in before a layer switches (SGLang's
// temporary buffers, vLLM's expert_weights_buffer).
Bytes layer_buffer(const Scenario& s, const PlacementPlan& plan) {
  int most = 0;
  for (const LayerPlan& layer : plan.layers) {
    for (std::size_t g = 0; g + 1 < layer.first_slot.size(); ++g) {
      most = std::max(most, layer.first_slot[g + 1] - layer.first_slot[g]);
    }
  }
  return s.parallelism.one_gpu_of(s.model).expert_bytes() * most;
}

// A run observes loads alone. A policy that needs more says so now, and not after a thousand steps.
void require_that_it_can_plan_again(const Scenario& s, const PolicyChoice& policy, const LoadWindow& window) {
  LoadWindow loads(window.layers(), window.experts());
  for (int l = 0; l < window.layers(); ++l) {
    std::copy(window.layer(l).begin(), window.layer(l).end(), loads.layer(l).begin());
  }
  policy.placement->plan(loads, s.parallelism.ep_shape(shape_of(s.cluster)));
}

// Fair sharing needs to know that all GPUs of a rank send alike, and to whom.
void check_fair_share(const Scenario& s, const PolicyChoice& policy) {
  if (s.dispatch.network.model != NetworkModel::kFairShare) {
    return;
  }
  const char* other = policy.per_step != nullptr                ? "acts in every step"
                      : policy.replica_choice != nullptr        ? "has copies serve some sources more than others"
                      : s.execution.sync == StepSync::kPairwise ? "is run with execution.sync: pairwise"
                                                                : nullptr;
  if (other != nullptr) {
    throw InputError(
        {"", 0, "network.model"},
        fmt::format("fair_share prices exchanges that all wait for and in which copies share evenly; policy "
                    "'{}' {}. Take two_tier or max_min.",
                    policy.label, other));
  }
}

// A prefix can be lent to another request only with the states of linear layers as they were behind it, which no cache
// here keeps (nor vLLM's unless asked to).
void check_prefix_cache(const Scenario& s) {
  if (s.serving.prefix_caching && s.requests.prefixes.known() && s.model.layers_of(AttentionReach::kLinear) > 0) {
    throw InputError({"", 0, "serving"},
                     fmt::format("the requests share prefixes, and {}'s linear-attention layers have no prefix cache "
                                 "here. Turn it off: disable_radix_cache: true (SGLang) or enable_prefix_caching: "
                                 "false (vLLM).",
                                 s.model.name));
  }
}

}  // namespace

const LoadWindow& planning_window(const Scenario& s, const PolicyChoice& policy) {
  return policy.knows_run_loads ? s.run_window : s.plan_window;
}

PreparedRun prepare_run(const Scenario& s, const PolicyChoice& policy) {
  if (policy.per_step != nullptr &&
      (s.execution.overlap != StepOverlap::kNone || s.execution.sync != StepSync::kBarrier)) {
    throw InputError(
        {"", 0, "execution"},
        fmt::format("policy '{}' acts in every step and brings its own overlap; run it without `overlap` and "
                    "with sync: barrier.",
                    policy.label));
  }
  if (!s.deployment.single()) {
    return prepare_deployment(s, policy);
  }
  if (policy.per_step != nullptr && s.parallelism.moe_tp > 1) {
    throw InputError({"", 0, "parallelism.ep_size"},
                     fmt::format("policy '{}' acts in every step and moves whole experts between GPUs; run it with one "
                                 "GPU an EP rank.",
                                 policy.label));
  }
  check_fair_share(s, policy);
  check_prefix_cache(s);
  const ClusterShape shape = s.parallelism.ep_shape(shape_of(s.cluster));
  const LoadWindow& window = planning_window(s, policy);
  PlacementPlan plan = policy.placement->plan(window, shape);
  plan.policy = policy.label;
  std::vector<SourceShares> shares;
  if (policy.replica_choice != nullptr) {
    shares = choose_replicas(*policy.replica_choice, plan, window, shape);
  }
  MemoryOptions options = s.memory;
  if (policy.per_step != nullptr) {
    options.resident_extra += buffer_bytes(s, *policy.per_step, policy.per_step->profile().extra_experts);
  }
  if (policy.rebalance != nullptr) {
    require_that_it_can_plan_again(s, policy, window);
    options.resident_extra += layer_buffer(s, plan);
  }
  Placement placement =
      Placement::build(plan, shape_of(s.cluster), s.parallelism.one_gpu_of(s.model).expert_bytes(),
                       expert_memory(s.model, s.cluster, s.parallelism, options), shares, s.parallelism.moe_tp);
  std::vector<std::int64_t> resident;
  for (int g = 0; g < placement.gpus(); ++g) {
    resident.push_back(placement.resident(g));
  }
  MemoryBreakdown memory = memory_breakdown(s.model, s.cluster, s.parallelism, options, resident);
  ServingOptions serving = s.serving;
  serving.kv_blocks = std::min_element(memory.ranks.begin(), memory.ranks.end(), [](const RankKv& a, const RankKv& b) {
                        return a.blocks < b.blocks;
                      })->blocks;
  serving.kv_block_tokens = s.memory.kv_block_tokens;
  serving.kv_blocks_per_request =
      static_cast<std::int64_t>(std::ceil(memory.kv_per_sequence / (memory.kv_per_token * serving.kv_block_tokens)));
  return {std::move(plan),  std::move(placement), std::move(memory), serving, options.resident_extra, {},
          std::move(shares)};
}

namespace {

void refuse_extrapolation(const RunResult& run) {
  const double share = run.time.by_origin[static_cast<std::size_t>(Origin::kExtrapolated)] / run.time.total;
  if (run.time.total.count() > 0 && share > 0) {
    throw InputError({"", 0, "strict-calibration"},
                     fmt::format("{}: {:.1f} % of the step time was priced outside what was measured, or from other "
                                 "hardware's measurements. `epsim calibrate show` says what was; without "
                                 "--strict-calibration the run is accepted and the share is in its summary.",
                                 run.label, share * 100));
  }
}

}  // namespace

StepPricer& InstancePricing::pricer() const {
  return faulty != nullptr ? *faulty : rebalancing != nullptr ? *rebalancing : steps.pricer();
}

const StepTotals& InstancePricing::totals() const {
  return rebalancing != nullptr ? rebalancing->model().totals() : steps.model->totals();
}

std::vector<Fault> faults_of(const Scenario& s, int instance) {
  std::vector<Fault> out;
  std::copy_if(s.faults.begin(), s.faults.end(), std::back_inserter(out),
               [instance](const Fault& f) { return f.instance == instance; });
  return out;
}

InstancePricing price_instance(const Scenario& s, const PolicyChoice& policy, const PreparedRun& prepared,
                               StepRecorder* recorder, int instance) {
  InstancePricing out;
  if (policy.rebalance != nullptr) {
    out.rebalancing =
        std::make_unique<RebalancingPricer>(s, policy, PlanInPlace{prepared.plan, prepared.shares}, recorder);
  } else {
    out.steps = price_steps(s, policy, prepared.placement, recorder);
  }
  if (std::vector<Fault> faults = faults_of(s, instance); !faults.empty()) {
    out.losses = losses_of(faults, s.parallelism);
    out.faulty = std::make_unique<FaultyPricer>(out.pricer(), faults, s.cluster);
    out.faults = std::move(faults);
  }
  if (!out.losses.losses.empty() && out.rebalancing == nullptr) {
    out.regrouper = std::make_unique<Regrouper>(s, prepared.plan);
    out.in_place = prepared.plan;
  }
  return out;
}

RegroupReport InstancePricing::regroup() const {
  return rebalancing != nullptr ? rebalancing->regroup_report()
         : regrouper != nullptr ? regrouper->report()
                                : RegroupReport{};
}

std::optional<Ticks> InstancePricing::change(const Scenario& s, const PolicyChoice& policy, std::size_t loss) {
  const StepConditions conditions = conditions_at(faults, losses.losses[loss].at, s.cluster);
  if (rebalancing != nullptr) {
    return rebalancing->regroup(losses.lost[loss], conditions);
  }
  const std::optional<Ticks> still = regrouper->regroup(in_place, losses.lost[loss], planning_window(s, policy),
                                                        conditions, steps.model->tally().link_bytes());
  if (!still) {
    return std::nullopt;
  }
  PlanInPlace plan{in_place, {}};
  if (policy.replica_choice != nullptr) {
    plan.shares = choose_replicas(*policy.replica_choice, plan.plan, planning_window(s, policy),
                                  s.parallelism.ep_shape(shape_of(s.cluster)));
  }
  auto next = std::make_unique<Placement>(build_unlimited(s, plan));
  steps.model->set_placement(*next);
  left = std::move(next);
  return still;
}

void tell_losses(const Scenario& s, const PolicyChoice& policy, InstancePricing& pricing, InstanceSpec& spec) {
  spec.losses = pricing.losses.losses;
  spec.on_loss = [&](std::size_t loss) { return pricing.change(s, policy, loss); };
}

void describe_run(const Scenario& s, const PolicyChoice& policy, const PreparedRun& prepared,
                  const InstancePricing& pricing, Seconds busy, RunResult& result) {
  result.label = policy.label;
  result.plan_summary = summarize_plan(prepared, policy, s.model);
  result.carried_over = carried_over(s.compute, s.network, s.cluster.nodes > 1);
  result.detail = pricing.totals();
  if (s.parallelism.moe_tp > 1) {  // each GPU of an EP rank computes its columns of every row: a part of the assignment
    for (double& rows : result.detail.gpu_load) {
      rows /= s.parallelism.moe_tp;
    }
  }
  if (policy.per_step == nullptr) {
    result.planned_balancedness = balancedness_by_layer(prepared.placement, planning_window(s, policy));
    result.extra_copies.clear();
    for (const LayerPlan& layer : prepared.plan.layers) {
      result.extra_copies.push_back(static_cast<std::int64_t>(layer.slots.size()) - prepared.plan.experts);
    }
  }
  result.memory =
      report_memory(prepared.memory, prepared.placement,
                    policy.rebalance != nullptr ? "migration buffer" : "prefetch buffers", prepared.buffers);
  result.gpus = s.cluster.gpus();
  result.conservation = check_conservation(result.detail, result.conservation);
  result.rebalance = pricing.rebalancing != nullptr ? pricing.rebalancing->report() : RebalanceReport{};
  result.regroup = pricing.regroup();
  check_links(result.detail, busy + to_seconds(result.rebalance.idle_moving + result.regroup.remaking));
}

RunResult run_prepared(const Scenario& s, const PolicyChoice& policy, const PreparedRun& prepared,
                       const RequestTrace& requests, const RunControl& control) {
  if (!s.deployment.single()) {
    RunResult result = run_deployment(s, policy, prepared, requests, control);
    result.warnings = s.warnings;
    if (control.strict_calibration) {
      refuse_extrapolation(result);
    }
    return result;
  }
  InstancePricing pricing = price_instance(s, policy, prepared, control.recorder);
  InstanceSpec spec;
  spec.options = prepared.serving;
  spec.pricer = &pricing.pricer();
  tell_losses(s, policy, pricing, spec);
  RunResult result = simulate(requests, {&spec, 1}, spec.options.router, control, s.deployment.retry_limit);
  describe_run(s, policy, prepared, pricing, result.time.total, result);
  result.warnings = s.warnings;
  if (control.strict_calibration) {
    refuse_extrapolation(result);
  }
  return result;
}

RunResult run_policy(const Scenario& s, const PolicyChoice& policy, const RunControl& control) {
  return run_prepared(s, policy, prepare_run(s, policy), s.requests, control);
}

}  // namespace epsim
