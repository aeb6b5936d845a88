#include "sim/cluster/prepare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "sim/domain/affinity.h"
#include "sim/step/step_balance.h"

namespace epsim {
namespace {

// A layer's experts of one GPU, the fullest: what engines receive weights in before a layer switches (SGLang's
// temporary buffers, vLLM's expert_weights_buffer).
Bytes layer_buffer(const Scenario& s, const InstancePool& pool, const PlacementPlan& plan) {
  return pool.parallelism.one_gpu_of(s.model).expert_bytes() * plan.most_in_a_layer();
}

// A run observes loads alone. A policy that needs more says so now, and not after a thousand steps.
void require_that_it_can_plan_again(const PolicyChoice& policy, const LoadWindow& window, const ClusterShape& shape) {
  LoadWindow loads(window.layers(), window.experts());
  for (int l = 0; l < window.layers(); ++l) {
    std::copy(window.layer(l).begin(), window.layer(l).end(), loads.layer(l).begin());
  }
  loads.set_affinity(window.affinity());
  policy.placement->plan(loads, shape);
}

// Fair sharing needs to know that all GPUs of a rank send alike, and to whom.
void check_fair_share(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy) {
  if (pool.dispatch.network.model != NetworkModel::kFairShare) {
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
void check_prefix_cache(const Scenario& s, const InstancePool& pool) {
  refuse_if(
      pool.serving.prefix_caching && s.requests.prefixes.known() && s.model.layers_of(AttentionReach::kLinear) > 0,
      "serving",
      fmt::format("the requests share prefixes, and {}'s linear-attention layers have no prefix cache here. Turn it "
                  "off: disable_radix_cache: true (SGLang) or enable_prefix_caching: false (vLLM).",
                  s.model.name));
}

// What the instances of a pool run under. Policies that act in every step are for prompts (Libra: "prefill only"): on
// decode instances the experts stay at home.
PolicyChoice policy_of(const InstancePool& pool, const PolicyChoice& policy) {
  const bool decodes = pool.serving.role == InstanceRole::kDecode;
  const PolicyChoice* own = decodes ? policy.decode.get() : policy.prefill.get();
  PolicyChoice out = own != nullptr ? *own : policy;
  out.label = policy.label;
  out.system = policy.system;
  out.overrides = policy.overrides;
  if (decodes) {
    out.per_step = nullptr;
  }
  return out;
}

// Only tokens show which experts are used together.
void check_collaborators(const Scenario& s) {
  refuse_if(s.dispatch.collaborators > 0 && s.plan_window.tokens() == nullptr, "dispatch.collaborators",
            "loads alone do not show which experts serve the same tokens; give plan_loads that are a routing trace "
            "with the expert ids of every token, or affinity_tokens where they are of kind model.");
}

void check_host_link(const InstancePool& pool, const PolicyChoice& policy) {
  const GpuSpec& gpu = pool.cluster.node.gpu;
  refuse_if(policy.per_step != nullptr && policy.per_step->profile().copies_from_host && gpu.host_rate.count() == 0,
            fmt::format("policies.{}.fetch_from", policy.label),
            fmt::format("experts come from the host's memory, and the rate of {}'s link to it is not known. Give "
                        "`host_rate` in a node file with a gpu_spec, or take fetch_from: gpu.",
                        gpu.name));
}

void check_per_step(const Scenario& s, const PolicyChoice& policy) {
  refuse_if(
      policy.per_step != nullptr &&
          (s.execution.overlap != StepOverlap::kNone || s.execution.sync != StepSync::kBarrier),
      "execution",
      fmt::format(
          "policy '{}' acts in every step and brings its own overlap; run it without `overlap` and with sync: barrier.",
          policy.label));
}

void check_pool(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy) {
  refuse_if(policy.per_step != nullptr && pool.parallelism.moe_tp > 1, "parallelism.ep_size",
            fmt::format(
                "policy '{}' acts in every step and moves whole experts between GPUs; run it with one GPU an EP rank.",
                policy.label));
  refuse_if(policy.per_step != nullptr && pool.dispatch.capacity.factor > 0, "dispatch.capacity_factor",
            fmt::format("policy '{}' acts in every step by what tokens chose; run it without buffers of one size.",
                        policy.label));
  check_collaborators(s);
  check_per_step(s, policy);
  check_host_link(pool, policy);
  check_fair_share(s, pool, policy);
  check_prefix_cache(s, pool);
}

// The scenario's serving options with the KV pool that the memory leaves.
ServingOptions with_kv_pool(const InstancePool& pool, const MemoryBreakdown& memory, const MoeSpec& model) {
  ServingOptions out = pool.serving;
  out.prefix_caching = out.prefix_caching && model.layers_of(AttentionReach::kLinear) == 0;  // check_prefix_cache()
  out.kv_blocks = std::min_element(memory.ranks.begin(), memory.ranks.end(), [](const RankKv& a, const RankKv& b) {
                    return a.blocks < b.blocks;
                  })->blocks;
  out.kv_block_tokens = pool.memory.kv_block_tokens;
  out.kv_blocks_per_request =
      static_cast<std::int64_t>(std::ceil(memory.kv_per_sequence / (memory.kv_per_token * out.kv_block_tokens)));
  return out;
}

void check_home(const PolicyChoice& policy, const PlacementPlan& plan) {
  refuse_if(policy.per_step != nullptr && plan.copies() > 0 && !policy.per_step->profile().starts_from_copies,
            fmt::format("policies.{}.home", policy.label),
            fmt::format("'{}' plans {} extra copies; this policy brings copies itself and starts from experts that lie "
                        "on one GPU each. Name a placement without copies.",
                        policy.planned_by, plan.copies()));
}

// Fused into the routed experts' layout, the shared expert is one more of them, of the same shape, whole on every GPU.
void check_shared_dispatch(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy) {
  if (policy.per_step == nullptr || !policy.per_step->profile().dispatches_shared) {
    return;
  }
  refuse_if(s.model.shared_intermediate != s.model.moe_intermediate, fmt::format("policies.{}", policy.label),
            fmt::format("this policy dispatches the shared expert as one more routed expert: it must be as wide as "
                        "those ({}), and {}'s is {} wide. Take a model with one shared expert.",
                        s.model.moe_intermediate, s.model.name, s.model.shared_intermediate));
  refuse_if(pool.parallelism.attention_tp > 1 && pool.parallelism.shared_experts != Sharding::kReplicated,
            "parallelism.shared_experts",
            fmt::format("policy '{}' has any GPU compute the shared expert, which is split over a rank's GPUs here; "
                        "set shared_experts: replicated.",
                        policy.label));
}

// By GPU; without copies, one of each expert and as many on every GPU.
std::vector<std::int64_t> resident_experts(const Placement& placement, bool with_copies) {
  const std::int64_t originals = static_cast<std::int64_t>(placement.layers()) * placement.experts();
  std::vector<std::int64_t> out;
  for (int g = 0; g < placement.gpus(); ++g) {
    out.push_back(with_copies ? placement.resident(g) : (originals + placement.gpus() - 1) / placement.gpus());
  }
  return out;
}

PreparedInstance prepare_instance(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy,
                                  PlanCache* plans) {
  check_pool(s, pool, policy);
  const ClusterShape shape = pool.parallelism.ep_shape(shape_of(pool.cluster));
  const LoadWindow& window = planning_window(s, policy);
  PlacementPlan plan = plans != nullptr ? plans->plan(s, policy, window, shape) : policy.placement->plan(window, shape);
  plan.policy = policy.label;
  check_home(policy, plan);
  check_shared_dispatch(s, pool, policy);
  std::vector<SourceShares> shares;
  if (policy.replica_choice != nullptr) {
    shares = choose_replicas(*policy.replica_choice, plan, window, shape);
  }
  MemoryOptions options = pool.memory;
  if (policy.per_step != nullptr) {
    options.resident_extra += buffer_bytes(s.model, pool.cluster.gpus(), *policy.per_step);
  }
  if (policy.rebalance != nullptr) {
    require_that_it_can_plan_again(policy, window, shape);
    options.resident_extra += layer_buffer(s, pool, plan);
  }
  Placement placement = Placement::build(
      plan, shape_of(pool.cluster), pool.parallelism.one_gpu_of(s.model).expert_bytes(),
      expert_memory(s.model, pool.cluster, pool.parallelism, options), shares, pool.parallelism.moe_tp);
  MemoryBreakdown memory =
      memory_breakdown(s.model, pool.cluster, pool.parallelism, policy.copies_take_kv ? options : pool.memory,
                       resident_experts(placement, policy.copies_take_kv));
  const ServingOptions serving = with_kv_pool(pool, memory, s.model);
  return {pool,
          policy,
          std::move(plan),
          std::move(placement),
          std::move(memory),
          serving,
          policy.copies_take_kv ? options.resident_extra : Bytes(0),
          std::move(shares)};
}

// The share of a GPU's memory for weights and KV cache, as the scenario or its engine names it.
const char* fraction_key(MemoryAccount account) {
  return account == MemoryAccount::kSglang ? "mem_fraction_static"
         : account == MemoryAccount::kVllm ? "gpu_memory_utilization"
                                           : "memory.static_fraction";
}

PreparedInstance prepare_or_help(const Scenario& s, const InstancePool& pool, const PolicyChoice& policy,
                                 PlanCache* plans) {
  try {
    return prepare_instance(s, pool, policy, plans);
  } catch (const DoesNotFit& misfit) {
    if (const auto share = static_fraction_for(misfit.need - misfit.have, pool.cluster, pool.memory)) {
      const double rounded = std::ceil(*share * 100) / 100;  // the readable share that surely has the room
      throw DoesNotFit(misfit, fmt::format(" So does a {} of {:.2f}.", fraction_key(pool.memory.account), rounded));
    }
    throw;
  }
}

}  // namespace

const LoadWindow& planning_window(const Scenario& s, const PolicyChoice& policy) {
  return policy.ceiling == Ceiling::kKnowsRunLoads ? s.run_window : s.plan_window;
}

PreparedRun prepare_run(const Scenario& scenario, const PolicyChoice& policy, PlanCache* plans) {
  const Scenario& s = system_of(scenario, policy);
  PreparedRun out;
  for (const InstancePool& pool : pools_of(s)) {
    out.pools.push_back(prepare_or_help(s, pool, policy_of(pool, policy), plans));
  }
  return out;
}

}  // namespace epsim
