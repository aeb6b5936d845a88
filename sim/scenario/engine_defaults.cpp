#include "sim/scenario/engine_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/network/make_network.h"
#include "sim/core/check.h"
#include "sim/scenario/compared_policies.h"
#include "sim/scenario/model_sections.h"
#include "sim/scenario/scenario.h"
#include "sim/scheduler/engines.h"

namespace epsim {
namespace {

bool has_curve(const LinkProfile& link, CollectiveKind kind) {
  return std::any_of(link.curves.begin(), link.curves.end(), [&](const auto& curve) { return curve.kind == kind; });
}

bool has_deep_ep(const ClusterSpec& cluster, const NetworkProfile& links) {
  const auto measured = [](const LinkProfile& link) {
    return has_curve(link, CollectiveKind::kDeepEpDispatch) &&
           has_curve(link, CollectiveKind::kDeepEpLowLatencyDispatch);
  };
  return (cluster.node.gpus == 1 || measured(links.intra)) && (cluster.nodes == 1 || measured(links.inter));
}

void warn_of_graphs(const InstancePool& pool, std::vector<std::string>& out) {
  if (pool.serving.graphs.enabled && !can_capture(pool.dispatch)) {
    const bool deep_ep = pool.dispatch.network.transport == Transport::kDeepEpNormal;
    out.push_back(deep_ep
                      ? "CUDA graphs are on with deepep_normal; engines turn them off, as its messages vary in size."
                      : "CUDA graphs are on with nccl_p2p, whose messages vary in size: no engine can capture them.");
  }
}

void warn_of_clients(const Scenario& s, std::vector<std::string>& out) {
  const auto requests = std::ssize(s.requests.requests) - s.requests.closed_loop.warmup;
  if (s.requests.closed_loop.concurrency > requests) {
    out.push_back(fmt::format("requests.concurrency is {}, and there are {} requests: no more are ever in flight.",
                              s.requests.closed_loop.concurrency, requests));
  }
}

bool low_latency_decodes(const InstancePool& pool) {
  const DispatchOptions& decodes = pool.dispatch.decode_steps != nullptr ? *pool.dispatch.decode_steps : pool.dispatch;
  return decodes.network.transport == Transport::kDeepEpLowLatency;
}

void warn_of_length(const Scenario& s, std::vector<std::string>& out) {
  std::int64_t longest = 0;
  for (const Request& r : s.requests.requests) {
    longest = std::max(longest, std::int64_t{r.input_tokens} + r.output_tokens);
  }
  if (s.model.context > 0 && longest > s.model.context) {
    out.push_back(
        fmt::format("the longest request has {} tokens, prompt and answer; {} was made for {} "
                    "(max_position_embeddings), and engines refuse longer ones unless told otherwise.",
                    longest, s.model.name, s.model.context));
  }
}

void warn_of_low_latency(const InstancePool& pool, std::vector<std::string>& out) {
  const std::int64_t of_gpu = find_engine(pool.serving.engine).low_latency_tokens;
  if (!low_latency_decodes(pool) || of_gpu == 0) {
    return;
  }
  const std::int64_t most = of_gpu * pool.parallelism.attention_tp;
  if (pool.dispatch.decode_steps == nullptr && pool.serving.role != InstanceRole::kDecode &&
      pool.serving.token_budget > most) {
    out.push_back(fmt::format(
        "deepep_low_latency takes {} tokens a GPU in SGLang's default, {} a DP rank; prompts come in chunks of "
        "up to {}. deepep_auto takes the normal kernels for them.",
        of_gpu, most, pool.serving.token_budget));
  }
  if (low_latency_rows(pool, pool.serving.max_running_requests) > 0) {
    out.push_back(low_latency_words(pool, pool.serving.max_running_requests));
  }
}

void warn_of_auto(const InstancePool& pool, std::vector<std::string>& out) {
  const std::string_view refused = find_engine(pool.serving.engine).refuses_deepep_auto;
  const bool deep_ep = pool.dispatch.network.transport == Transport::kDeepEpNormal;
  if (pool.dispatch.decode_steps != nullptr && deep_ep && !refused.empty() && pool.parallelism.dp_ranks() > 1) {
    out.emplace_back(refused);
  }
}

void warn_of_mxfp4(const MoeSpec& model, const InstancePool& pool, std::vector<std::string>& out) {
  const EngineProfile& engine = find_engine(pool.serving.engine);
  if (model.dtype == WeightType::kMxfp4 && pool.parallelism.ep_size() > 1 &&
      turns_into_bf16(engine, pool.cluster.node.gpu)) {
    out.push_back(fmt::format("{}; model.dtype: bf16 prices that, ep_size: 1 keeps mxfp4.", engine.mxfp4_by_ep));
  }
}

void warn_of_blocks(const MoeSpec& model, const InstancePool& pool, std::vector<std::string>& out) {
  const Parallelism& parallelism = pool.parallelism;
  if (find_engine(pool.serving.engine).whole_blocks && parallelism.splits_blocks(model)) {
    out.push_back(fmt::format(
        "{} does not load block-quantised fp8 experts with {} of {} columns on a GPU: not a multiple of 128. They are "
        "priced as {} columns; a larger ep_size splits them less.",
        pool.serving.engine, model.moe_intermediate / parallelism.moe_tp, model.moe_intermediate,
        parallelism.one_gpu_of(model).moe_intermediate));
  }
}

void warn_of_alignment(const InstancePool& pool, std::vector<std::string>& out) {
  const std::string_view since = find_engine(pool.serving.engine).alignment_since;
  if (since.empty()) {
    return;
  }
  const PrefillAlignment& alignment = pool.serving.prefill_alignment;
  if (alignment.max_delay_passes > 0) {
    out.push_back(fmt::format("the prefill delayer is on; {} has none. {}.", pool.serving.engine, since));
  }
  if (alignment.schedule_interval > 1) {
    out.push_back(fmt::format("prefill_schedule_interval is {}; {} has none. {}.", alignment.schedule_interval,
                              pool.serving.engine, since));
  }
}

// Of SGLang's default alone: the others take nothing out of the pool for graphs.
void warn_of_small_share(const InstancePool& pool, std::vector<std::string>& out) {
  constexpr double kSmall = 0.5;
  const double share = pool.memory.static_fraction, all = to_gib(pool.cluster.node.gpu.memory);
  if (pool.memory.account == MemoryAccount::kSglang && share < kSmall) {
    out.push_back(fmt::format(
        "mem_fraction_static is {:.3g}: {:.0f} of a GPU's {:.0f} GiB are left to CUDA graphs and activations, "
        "and not to weights and KV cache. SGLang's default reserves the largest graph times the DP ranks; a "
        "smaller cuda_graph_max_bs leaves more KV room.",
        share, all * (1 - share), all));
  }
}

bool is_deep_ep(const DispatchOptions& dispatch) {
  const Transport transport = dispatch.network.transport;
  return transport == Transport::kDeepEpNormal || transport == Transport::kDeepEpLowLatency;
}

bool runs_deep_ep(const EngineProfile& engine, const MoeSpec& model) {
  return std::ranges::find(engine.without_deep_ep, model.model_type) == engine.without_deep_ep.end();
}

void warn_of_deep_ep(const MoeSpec& model, const InstancePool& pool, std::vector<std::string>& out) {
  if (is_deep_ep(pool.dispatch) && !runs_deep_ep(find_engine(pool.serving.engine), model)) {
    out.push_back(fmt::format("DeepEP moves the tokens; {} does not run {} with it.", pool.serving.engine, model.name));
  }
}
}  // namespace

std::string_view moved_experts_warning(const InstancePool& pool) {
  return is_deep_ep(pool.dispatch) || pool.parallelism.ep_size() == 1 ? ""
                                                                      : find_engine(pool.serving.engine).moved_experts;
}

std::int64_t low_latency_rows(const InstancePool& pool, std::int64_t decodes) {
  const std::int64_t of_gpu = find_engine(pool.serving.engine).low_latency_tokens, gpus = pool.parallelism.attention_tp;
  const std::int64_t rows = (decodes + gpus - 1) / gpus;
  return low_latency_decodes(pool) && of_gpu > 0 && rows > of_gpu ? rows : 0;
}

std::string low_latency_words(const InstancePool& pool, std::int64_t decodes) {
  const std::int64_t of_gpu = find_engine(pool.serving.engine).low_latency_tokens;
  const std::int64_t rows = low_latency_rows(pool, decodes);
  return fmt::format(
      "steps have up to {} decodes a DP rank; deepep_low_latency takes {} a GPU in SGLang's default, {} a rank. {} "
      "lower cuda_graph_max_bs and max_running_requests.",
      decodes, of_gpu, of_gpu * pool.parallelism.attention_tp,
      rows > kMostLowLatencyRows
          ? fmt::format("SGLang takes {} at most:", kMostLowLatencyRows)
          : fmt::format("Start SGLang with SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK={}, or", rows));
}

EngineSite site_of(const ClusterSpec& cluster, const MoeSpec& model, int dp_ranks, const DispatchOptions& dispatch,
                   bool fraction_stated, InstanceRole role) {
  const GpuSpec& gpu = cluster.node.gpu;
  EngineSite out{dp_ranks,       cluster.gpus(), gpu.name, gpu.memory, is_deep_ep(dispatch), can_capture(dispatch),
                 fraction_stated};
  out.role = role;
  out.model_type = model.model_type;
  return out;
}

EngineDefault<std::string> default_transport(std::string_view engine, const MoeSpec& model, const ClusterSpec& cluster,
                                             const NetworkProfile& links, int dp_ranks, InstanceRole role) {
  if (model.dense()) {
    return {"allreduce",
            "vLLM and SGLang (RowParallelLinear), TensorRT-LLM (modules/linear.py): after attention and FFN"};
  }
  const bool deep_ep = dp_ranks > 1 && has_deep_ep(cluster, links) && runs_deep_ep(find_engine(engine), model);
  const bool rack = has_curve(links.intra, CollectiveKind::kNvlinkOneSidedDispatch) && cluster.nodes == 1;
  const auto rows = find_engine(engine).transports;
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const TransportDefault& r) {
    return (!r.deep_ep || deep_ep) && (!r.decode_only || role == InstanceRole::kDecode) &&
           (!r.one_rank || dp_ranks == 1) && (!r.rack || rack);
  });
  EPSIM_CHECK(row != rows.end(), "the last transport of an engine needs nothing");
  return {row->transport, row->source};
}

bool can_capture(const DispatchOptions& dispatch) {
  const Transport decodes = (dispatch.decode_steps != nullptr ? *dispatch.decode_steps : dispatch).network.transport;
  return decodes != Transport::kNcclP2p && decodes != Transport::kDeepEpNormal;
}

void warn_of_drafter(const MoeSpec& model, const InstancePool& pool, std::vector<std::string>& out) {
  if (pool.serving.speculative.has_layer() && model.mtp_layers == 0) {
    out.push_back(
        fmt::format("serving.speculative drafts with a multi-token-prediction layer, and {} is not known to have one "
                    "(mtp_layers of "
                    "the model): the drafter is priced as a layer like the model's last.",
                    model.name));
  }
}

// A run takes thousands of steps: from half a minute on.
constexpr double kLongStep = 0.01;

void warn_of_flows(const MoeSpec& model, const InstancePool& pool, std::vector<std::string>& out) {
  const double exchange = max_min_time(pool.cluster.gpus()).count(), step = 2.0 * model.moe_layers() * exchange;
  if (pool.dispatch.network.model == NetworkModel::kMaxMin && step >= kLongStep) {
    out.push_back(fmt::format(
        "max_min follows a flow for every two GPUs: an exchange in which all {} send takes about {:.2g} s of one core, "
        "a step of {} MoE layers {:.2g} s. On one switch, {} comes close to it in much less time.",
        pool.cluster.gpus(), exchange, model.moe_layers(), step,
        pool.dispatch.fair_share_prices() ? "fair_share" : "two_tier"));
  }
}

// Settings of what is turned off. They are not refused, since a sweep may turn it on.
void warn_of_idle_settings(const Scenario& s, std::vector<std::string>& out) {
  const ExecutionOptions &given = s.execution, usual;
  if (given.overlap != StepOverlap::kTwoBatch && given.two_batch_min_tokens != usual.two_batch_min_tokens) {
    out.emplace_back("execution.two_batch_min_tokens has no effect: execution.overlap is not two_batch.");
  }
  const bool in_order = given.mode == ExecutionMode::kClosedForm &&
                        std::ranges::none_of(s.policies, [](const PolicyChoice& p) { return p.per_step != nullptr; });
  if (in_order && given.exchange_sm_share != usual.exchange_sm_share) {
    out.emplace_back("execution.exchange_sm_share has no effect: nothing overlaps an exchange (execution.overlap).");
  }
  if (in_order && given.speed_beside_copies != usual.speed_beside_copies) {
    out.emplace_back("execution.speed_beside_copies has no effect: no policy here copies weights in a step.");
  }
  if (s.deployment.single() &&
      s.deployment.router != find_engine(s.serving.engine).instance_router(s.requests.prefixes.known()).value) {
    out.emplace_back("deployment.router has no effect on one instance; serving.router chooses the DP rank.");
  }
  if (std::ranges::all_of(pools_of(s), [](const InstancePool& pool) {
        const FabricOptions& fabric = pool.dispatch.network.fabric;
        return fabric.kind == FabricKind::kLeafSpine && fabric.oversubscription != 1 &&
               pool.cluster.nodes <= fabric.nodes_per_leaf;
      })) {
    out.emplace_back("cluster.fabric.oversubscription has no effect: one leaf holds all nodes (nodes_per_leaf).");
  }
  for (const InstancePool& pool : pools_of(s)) {
    for (const std::string& knob : pool.serving.idle_knobs) {  // pools may share a section
      if (std::ranges::find(out, knob) == out.end()) {
        out.push_back(knob);
      }
    }
  }
}

std::vector<std::string> engine_warnings(const Scenario& s) {
  std::vector<std::string> out;
  warn_of_idle_settings(s, out);
  warn_of_length(s, out);
  warn_of_clients(s, out);
  for (const InstancePool& pool : pools_of(s)) {
    std::vector<std::string> own;
    warn_of_graphs(pool, own);
    warn_of_small_share(pool, own);
    warn_of_low_latency(pool, own);
    warn_of_auto(pool, own);
    warn_of_deep_ep(s.model, pool, own);
    warn_of_mxfp4(s.model, pool, own);
    warn_of_blocks(s.model, pool, own);
    warn_of_alignment(pool, own);
    warn_of_drafter(s.model, pool, own);
    warn_of_flows(s.model, pool, own);
    for (const std::string& warning : own) {
      const std::string_view role = kInstanceRoleNames[static_cast<std::size_t>(pool.role)];
      out.push_back(pool.role == InstanceRole::kWhole ? warning : fmt::format("{} instances: {}", role, warning));
    }
  }
  return out;
}

std::string never_acts(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy) {
  const std::int64_t least = policy.per_step == nullptr ? 0 : policy.per_step->profile().least_tokens;
  const ServingOptions& serving = pool.serving;
  const std::int64_t running =
      serving.max_running_requests > 0 ? serving.max_running_requests : std::ssize(s.requests.requests);
  const std::int64_t most = std::max(serving.token_budget, running * (1 + serving.speculative.draft_tokens));
  const int gpus = pool.parallelism.attention_tp;
  return most >= least * gpus
             ? ""
             : fmt::format(
                   "policy '{}' never acts: it leaves steps of fewer than {} tokens a GPU alone (`{}`), and steps "
                   "here have at most {} a GPU, {} on the {} GPUs of a DP rank.",
                   policy.label, least, kPrefillTokensKey.name, most / gpus, most, gpus);
}

namespace {

// Whether experts have the same shares of what policies plan from and of what the run is scored on, and not all one.
bool plans_from_its_own_loads(const LoadWindow& plan, const LoadWindow& run) {
  constexpr double kSame = 1e-9;
  bool skewed = false;
  for (int l = 0; l < plan.layers(); ++l) {
    const double planned = plan.total(l), scored = run.total(l);
    for (std::size_t e = 0; e < plan.layer(l).size(); ++e) {
      if (std::abs(plan.layer(l)[e] / planned - run.layer(l)[e] / scored) > kSame) {
        return false;
      }
      skewed = skewed || plan.layer(l)[e] != plan.layer(l)[0];
    }
  }
  return skewed;
}

}  // namespace

std::string planning_warning(const Scenario& s) {
  const bool plans = std::ranges::any_of(s.policies, [](const PolicyChoice& policy) {
    return policy.ceiling == Ceiling::kNone && !is_reference(policy.label);
  });
  return plans && plans_from_its_own_loads(s.plan_window, s.run_window)
             ? "policies plan from the very loads that the run is scored on: what they gain is a bound, as oracle's. "
               "Give "
               "plan_loads another recording, another part of this one, or of synthetic loads a drift."
             : "";
}

std::vector<std::string> policy_warnings(const Scenario& s, const PolicyChoice& policy) {
  std::vector<std::string> out;
  for (const InstancePool& pool : pools_of(s)) {
    const PolicyChoice& own = policy.prefill != nullptr ? *policy.prefill : policy;
    const std::string warning = pool.serving.role == InstanceRole::kDecode ? "" : never_acts(s, pool, own);
    if (!warning.empty()) {
      out.push_back(warning);
    }
  }
  const double assumed = policy.per_step == nullptr ? 0 : policy.per_step->profile().assumed_hidden;
  if (assumed > 0 && assumed != s.model.hidden) {
    out.push_back(
        fmt::format("policy '{0}' decides by a cost model of its own, for a model {1:.0f} wide; {2} is {3} wide. Set "
                    "hidden, network "
                    "and compute of policies.{0} to this model and hardware.",
                    policy.label, assumed, s.model.name, s.model.hidden));
  }
  if (const std::string_view other = find_engine(s.serving.engine).own_rebalance;
      policy.rebalance != nullptr && !other.empty()) {
    out.push_back(
        fmt::format("policy '{}' moves weights between GPUs, as SGLang and vLLM do. {}.", policy.label, other));
  }
  return out;
}

std::vector<std::string> all_warnings(const Scenario& scenario) {
  std::vector<std::string> out = scenario.warnings;
  const auto add = [&](const std::vector<std::string>& warnings) {
    std::ranges::copy_if(warnings, std::back_inserter(out),
                         [&](const std::string& warning) { return std::ranges::find(out, warning) == out.end(); });
  };
  for (const PolicyChoice& policy : scenario.policies) {
    const Scenario& system = system_of(scenario, policy);
    add(system.warnings);
    add(policy_warnings(system, policy));
  }
  if (const std::string warning = planning_warning(scenario); !warning.empty()) {
    out.push_back(warning);
  }
  return out;
}

}  // namespace epsim
