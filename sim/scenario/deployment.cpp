#include "sim/scenario/deployment.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/scenario/expert_layout.h"
#include "sim/scenario/network_options.h"
#include "sim/scenario/scenario.h"
#include "sim/scheduler/engines.h"

namespace epsim {
namespace {

Router read_router(ConfigReader& in) {
  const std::string rule = in.choice("router", {"round_robin", "least_tokens", "cache_aware"}, "round_robin");
  return rule == "round_robin"    ? Router::kRoundRobin
         : rule == "least_tokens" ? Router::kLeastTokens
                                  : Router::kCacheAware;
}

void read_layout(ConfigReader& in, const Scenario& s, InstancePool& pool) {
  pool.instances = in.optional<int>("instances", 1, Bound::kPositive);
  pool.cluster.nodes = in.optional<int>("nodes", s.cluster.nodes, Bound::kPositive);
  pool.parallelism.gpus = pool.cluster.gpus();
  pool.parallelism.attention_tp = in.optional<int>("attention_tp", s.parallelism.attention_tp, Bound::kPositive);
  in.check(pool.parallelism.attention_tp <= pool.cluster.node.gpus &&
               pool.cluster.node.gpus % pool.parallelism.attention_tp == 0,
           "attention_tp",
           fmt::format("attention groups of {} GPUs do not divide a node of {}.", pool.parallelism.attention_tp,
                       pool.cluster.node.gpus));
  // As many GPUs an EP rank as the scenario's, or all where those are all.
  const bool alone = s.parallelism.moe_tp > 1 && s.parallelism.moe_tp == s.parallelism.gpus;
  read_ep_size(in, alone ? pool.parallelism.gpus : s.parallelism.moe_tp, pool.parallelism);
  in.check(
      pool.parallelism.gpus % pool.parallelism.moe_tp == 0, "ep_size",
      fmt::format("the scenario's EP ranks of {} GPUs do not divide this pool's {}; give it an ep_size of its own.",
                  pool.parallelism.moe_tp, pool.parallelism.gpus));
  pool.parallelism.validate(s.model, shape_of(pool.cluster));
}

void read_pool_memory(ConfigReader& in, const EngineMemory& engine, InstancePool& pool) {
  if (in.has("static_fraction") || engine.static_fraction) {
    pool.memory.account = in.has("static_fraction") ? MemoryAccount::kPlain : engine.account;
  }
  const auto fraction = in.maybe<double>("static_fraction", Bound::kPositive);
  in.check(!fraction || *fraction <= 1, "static_fraction", "a share of the memory is at most 1.");
  const auto blocks = in.maybe<std::int64_t>("num_gpu_blocks", Bound::kPositive);
  pool.memory.static_fraction = fraction.value_or(engine.static_fraction.value_or(pool.memory.static_fraction));
  pool.memory.kv_block_tokens = engine.kv_block_tokens.value_or(pool.memory.kv_block_tokens);
  if (blocks || engine.num_gpu_blocks) {
    pool.memory.num_gpu_blocks = blocks ? blocks : engine.num_gpu_blocks;
  }
}

InstancePool read_pool(ConfigReader& root, const std::string& key, InstanceRole role, const Scenario& s) {
  ConfigReader in = root.section("deployment").required_section(key);
  InstancePool pool{role, 1, s.cluster, s.parallelism, s.memory, s.dispatch, s.serving};
  read_layout(in, s, pool);
  const bool has_serving = in.has("serving");
  const int dp_ranks = pool.parallelism.dp_ranks();
  std::string_view named = s.serving.engine;
  if (has_serving) {
    ConfigReader serving = in.section("serving");
    named = read_engine_profile(serving, s.serving.engine).name;
  }
  pool.dispatch = read_pool_dispatch(root, in, pool.cluster, s.network, s.model, s.dispatch,
                                     default_transport(named, pool.cluster, s.network, dp_ranks, role));
  EngineMemory engine;
  if (has_serving) {
    const bool stated = in.has("static_fraction") || s.memory.account == MemoryAccount::kPlain;
    ConfigReader serving = in.section("serving");
    EngineSettings settings =
        read_engine_settings(serving, site_of(pool.cluster, dp_ranks, pool.dispatch, stated), s.serving.engine);
    settings.serving.seed = s.serving.seed;
    pool.serving = settings.serving;
    engine = settings.memory;
  } else {
    in.check(pool.parallelism.dp_ranks() == s.parallelism.dp_ranks(), "serving",
             fmt::format("this pool has {} DP ranks an instance and the scenario's own sections describe {}; give the "
                         "pool a `serving` section of its own.",
                         pool.parallelism.dp_ranks(), s.parallelism.dp_ranks()));
    if (!root.section("serving").has("disable_cuda_graph") && !root.section("serving").has("enforce_eager")) {
      pool.serving.graphs.enabled = can_capture(pool.dispatch);
    }
  }
  read_pool_memory(in, engine, pool);
  check_ep_size(in, pool.parallelism, pool.serving, pool.dispatch);
  pool.serving.role = role;
  return pool;
}

void read_after_loss(ConfigReader& in, Deployment& out) {
  const std::vector<std::string> names(kAfterLossNames.begin(), kAfterLossNames.end());
  const std::string name = in.choice("after_loss", names, names.front());
  out.after_loss = static_cast<AfterLoss>(std::find(names.begin(), names.end(), name) - names.begin());
  out.reload_rate = in.maybe<BytesPerSecond>("reload_rate", Bound::kPositive).value_or(BytesPerSecond{});
  in.check(
      out.after_loss != AfterLoss::kRepair || out.reload_rate.count() > 0, "reload_rate",
      "after_loss: repair loads experts whose last copy is lost from outside the GPUs, at a rate that only you know: "
      "give reload_rate.");
}

}  // namespace

int Deployment::instances() const {
  int sum = single() ? 1 : 0;
  for (const InstancePool& pool : pools) {
    sum += pool.instances;
  }
  return sum;
}

int all_gpus(const Scenario& s) {
  int sum = s.deployment.single() ? s.cluster.gpus() : 0;
  for (const InstancePool& pool : s.deployment.pools) {
    sum += pool.instances * pool.cluster.gpus();
  }
  return sum;
}

std::vector<InstancePool> pools_of(const Scenario& s) {
  if (s.deployment.single()) {
    return {{s.serving.role, 1, s.cluster, s.parallelism, s.memory, s.dispatch, s.serving}};
  }
  return s.deployment.pools;
}

Deployment read_deployment(ConfigReader& root, const Scenario& s) {
  ConfigReader in = root.section("deployment");
  Deployment out;
  out.router = read_router(in);
  out.retry_limit = in.optional<int>("retry_limit", out.retry_limit);
  in.check(out.retry_limit <= 1000, "retry_limit", "at most 1000.");
  read_after_loss(in, out);
  const bool apart = in.has("prefill") || in.has("decode");
  if (!apart) {
    const int instances = in.optional<int>("instances", 1, Bound::kPositive);
    if (instances > 1) {
      out.pools.push_back({InstanceRole::kWhole, instances, s.cluster, s.parallelism, s.memory, s.dispatch, s.serving});
    }
    return out;
  }
  in.check(!in.has("instances"), "instances", "with prefill and decode pools, each of them has its own count.");
  in.check(in.has("decode"), "prefill", "prefill instances need decode instances; add a section `decode`.");
  in.check(in.has("prefill"), "decode", "decode instances need prefill instances; add a section `prefill`.");
  in.check(s.cluster.node.nics > 0, "prefill",
           fmt::format("nodes of kind {} have no NICs, so that keys and values have no path from prefill to decode "
                       "instances.",
                       s.cluster.node.name));
  out.pools.push_back(read_pool(root, "prefill", InstanceRole::kPrefill, s));
  out.pools.push_back(read_pool(root, "decode", InstanceRole::kDecode, s));
  return out;
}

Scenario scenario_of(const Scenario& scenario, const InstancePool& pool) {
  Scenario out = scenario;
  out.cluster = pool.cluster;
  out.parallelism = pool.parallelism;
  out.memory = pool.memory;
  out.dispatch = pool.dispatch;
  out.serving = pool.serving;
  out.deployment = {};
  out.deployment.after_loss = scenario.deployment.after_loss;
  out.deployment.reload_rate = scenario.deployment.reload_rate;
  return out;
}

}  // namespace epsim
