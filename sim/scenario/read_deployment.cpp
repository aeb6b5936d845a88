#include "sim/scenario/read_deployment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/core/limits.h"
#include "sim/scenario/expert_layout.h"
#include "sim/scenario/model_sections.h"
#include "sim/scenario/network_options.h"
#include "sim/scenario/root_keys.h"
#include "sim/scheduler/engines.h"

namespace epsim {
namespace {

constexpr KeyTable kDeploymentKeys({
    {"instances", key::whole(Bound::kPositive), key::is(1), "Number of equal instances."},
    {"router", key::one_of<Router>(),
     key::by("round_robin; cache_aware with SGLang 0.5, of requests that share prefixes"),
     "Which instance takes a request, and which decode instance a prompt goes to."},
    {"retry_limit", key::whole(at_most(1000)), key::is(3),
     "How often a request restarts after its DP rank is lost before it fails."},
    {"after_loss", key::one_of<AfterLoss>(), key::is(AfterLoss::kKeep), "What happens to experts on lost GPUs."},
    {"reload_rate", key::byte_rate(Bound::kPositive), key::kNone,
     "Rate at which each GPU loads weights from outside; required by after_loss: repair."},
    {"prefill", key::section(), key::kNone, "The prefill instances; `decode` takes the same keys. Needs both."},
    {"decode", key::section(), key::kNone, "The decode instances; keys as in `prefill`."},
});

constexpr KeyTable kPoolKeys({
    {"instances", key::whole(Bound::kPositive), key::is(1), "Number of instances of this pool."},
    {"nodes", key::whole(Bound::kPositive), key::by("cluster.nodes"), "Nodes of one instance."},
    {"gpus_per_node", key::whole(Bound::kPositive), key::by("cluster.gpus_per_node"),
     "GPUs used of each node, at most cluster.gpus_per_node."},
    {"attention_tp", key::whole(Bound::kPositive), key::by("parallelism.attention_tp"), "GPUs of one DP rank."},
    {"ep_size", key::whole(Bound::kPositive), key::by("as the scenario"), "Expert-parallel ranks of one instance."},
    {"dense_ffn", key::one_of<Sharding>(),
     key::by("parallelism.dense_ffn where given; else the engine's for this pool"),
     "How a DP rank holds the dense layers."},
    {"lm_head", key::one_of<Sharding>(), key::by("parallelism.lm_head or embedding where given; else the engine's"),
     "How a DP rank holds the output head."},
    {"static_fraction", key::number(kPositiveShare), key::by("memory.static_fraction"),
     "Share of GPU memory for weights, copies and KV cache."},
    {"num_gpu_blocks", key::whole(Bound::kPositive), key::by("memory.num_gpu_blocks"), "KV blocks of a DP rank."},
    {"dispatch", key::section(), key::by("the scenario's"),
     "How tokens are exchanged in this pool; keys as in `dispatch`."},
    {"serving", key::section(), key::by("the scenario's"), "Engine settings of this pool; keys as in `serving`."},
});

void check_gpus(const ConfigReader& in, int instances, const ClusterSpec& cluster) {
  check_limit(limits::kGpus, product_of({instances, cluster.nodes, cluster.node.gpus}), in.place("instances"));
}

void read_layout(ConfigReader& in, const Scenario& s, InstancePool& pool) {
  pool.instances = in.read<int>(kPoolKeys["instances"]);
  pool.cluster.nodes = in.read<int>(kPoolKeys["nodes"], s.cluster.nodes);
  read_gpus_per_node(in, kPoolKeys["gpus_per_node"], pool.cluster);
  check_gpus(in, pool.instances, pool.cluster);
  pool.parallelism.gpus = pool.cluster.gpus();
  const bool dense = s.model.dense();
  pool.parallelism.attention_tp =
      in.read<int>(kPoolKeys["attention_tp"], dense ? pool.parallelism.gpus : s.parallelism.attention_tp);
  const int tp = pool.parallelism.attention_tp, per_node = pool.cluster.node.gpus;
  in.check(tp <= per_node ? per_node % tp == 0 : tp == pool.parallelism.gpus, "attention_tp",
           fmt::format("DP ranks of {} GPUs neither divide a node of {} nor take all of an instance's {}.", tp,
                       per_node, pool.parallelism.gpus));
  in.check(
      !dense || tp == pool.parallelism.gpus, "attention_tp",
      fmt::format("a dense model has one DP rank an instance, of all its {} GPUs; for ranks of {} set gpus_per_node.",
                  pool.parallelism.gpus, tp));
  // As many GPUs an EP rank as the scenario's, or all where those are all.
  const bool alone = s.parallelism.moe_tp > 1 && s.parallelism.moe_tp == s.parallelism.gpus;
  read_ep_size(in, kPoolKeys["ep_size"], alone ? pool.parallelism.gpus : s.parallelism.moe_tp, pool.parallelism);
  in.check(
      pool.parallelism.gpus % pool.parallelism.moe_tp == 0, "ep_size",
      fmt::format("the scenario's EP ranks of {} GPUs do not divide this pool's {}; give the pool its own ep_size.",
                  pool.parallelism.moe_tp, pool.parallelism.gpus));
  check_parallelism(in, pool.parallelism, s.model, pool.cluster);
}

// The engine's default depends on the DP ranks, which may be more here than the scenario's own sections describe.
void read_sharding(ConfigReader& root, ConfigReader& in, const EngineProfile& engine, Parallelism& p) {
  const ConfigReader scenario = root.section(kRootKeys["parallelism"]);
  const LayoutDefault layout = p.dp_ranks() > 1 ? engine.layout : LayoutDefault{};
  const bool dense = scenario.has("dense_ffn"), head = scenario.has("lm_head") || scenario.has("embedding");
  p.dense_ffn = in.read<Sharding>(kPoolKeys["dense_ffn"], dense ? p.dense_ffn : layout.dense_ffn,
                                  dense ? "parallelism" : layout.dense_ffn_source);
  p.lm_head = in.read<Sharding>(kPoolKeys["lm_head"], head ? p.lm_head : layout.lm_head,
                                head ? "parallelism" : layout.lm_head_source);
}

void read_pool_memory(ConfigReader& in, const EngineMemory& engine, InstancePool& pool) {
  if (in.has("serving")) {
    pool.memory.window_share = engine.window_share;
    pool.memory.drafter = engine.drafter && pool.serving.speculative.has_layer();
  }
  if (in.has("static_fraction") || engine.static_fraction) {
    pool.memory.account = in.has("static_fraction") ? MemoryAccount::kPlain : engine.account;
  }
  const auto fraction = in.maybe<double>(kPoolKeys["static_fraction"]);
  const auto blocks = in.maybe<std::int64_t>(kPoolKeys["num_gpu_blocks"]);
  pool.memory.static_fraction = fraction.value_or(engine.static_fraction.value_or(pool.memory.static_fraction));
  pool.memory.kv_block_tokens = engine.kv_block_tokens.value_or(pool.memory.kv_block_tokens);
  if (blocks || engine.num_gpu_blocks) {
    pool.memory.num_gpu_blocks = blocks ? blocks : engine.num_gpu_blocks;
  }
}

InstancePool read_pool(ConfigReader& root, const Key& key, InstanceRole role, const Scenario& s) {
  ConfigReader in = root.section(kRootKeys["deployment"]).section(key);
  InstancePool pool{role, 1, s.cluster, s.parallelism, s.memory, s.dispatch, s.serving};
  read_layout(in, s, pool);
  const bool has_serving = in.has("serving");
  const int dp_ranks = pool.parallelism.dp_ranks();
  std::string_view named = s.serving.engine;
  if (has_serving) {
    ConfigReader serving = in.section(kPoolKeys["serving"]);
    default_engine(serving, s.serving.engine);
    named = read_engine_profile(serving).name;
  }
  read_sharding(root, in, find_engine(named), pool.parallelism);
  pool.dispatch =
      read_pool_dispatch(root, in.section(kPoolKeys["dispatch"]),
                         {pool.cluster, s.network, s.compute, s.model, find_engine(named).fp4_rows}, s.dispatch,
                         default_transport(named, s.model, pool.cluster, s.network, dp_ranks, role));
  EngineMemory engine;
  if (has_serving) {
    const bool stated = in.has("static_fraction") || s.memory.account == MemoryAccount::kPlain;
    ConfigReader serving = in.section(kPoolKeys["serving"]);
    EngineSettings settings =
        read_engine_settings(serving, site_of(pool.cluster, s.model, dp_ranks, pool.dispatch, stated, role));
    settings.serving.seed = s.serving.seed;
    pool.serving = settings.serving;
    engine = settings.memory;
  } else {
    in.check(pool.parallelism.dp_ranks() == s.parallelism.dp_ranks(), "serving",
             fmt::format("this pool has {} DP ranks an instance and the scenario's own sections describe {}; give the "
                         "pool its own `serving` section.",
                         pool.parallelism.dp_ranks(), s.parallelism.dp_ranks()));
    if (role == InstanceRole::kPrefill && !find_engine(named).prefill_overlaps) {
      pool.serving.overlap_schedule = false;
    }
    if (role == InstanceRole::kPrefill && !root.section(kRootKeys["serving"]).has("router")) {
      pool.serving.router = find_engine(named).prefill_router;
    }
    if (!pool.serving.graphs.stated) {
      pool.serving.graphs.enabled = can_capture(pool.dispatch);
    }
  }
  read_pool_memory(in, engine, pool);
  if (has_serving) {  // asking for the section would make it one of the resolved scenario's
    pool.memory.profiled_peak = Bytes(engine.peak_per_word * s.model.vocab);
    check_chunk(in.section(kPoolKeys["serving"]), engine, pool.memory.kv_block_tokens);
  }
  check_ep_size(in, pool.parallelism, pool.serving, pool.dispatch);
  check_rank_over_nodes(in, pool.cluster, pool.parallelism, pool.dispatch);
  pool.serving.role = role;
  return pool;
}

void read_after_loss(ConfigReader& in, DeploymentOptions& out) {
  out.after_loss = in.read<AfterLoss>(kDeploymentKeys["after_loss"]);
  out.reload_rate = in.maybe<BytesPerSecond>(kDeploymentKeys["reload_rate"]).value_or(BytesPerSecond{});
  in.check(
      out.after_loss != AfterLoss::kRepair || out.reload_rate.count() > 0, "reload_rate",
      "after_loss: repair loads experts whose last copy is lost from outside the GPUs, at a rate that only you know: "
      "give reload_rate.");
}

}  // namespace

std::span<const Key> deployment_keys() { return kDeploymentKeys; }

std::span<const Key> pool_keys() { return kPoolKeys; }

bool has_pools(ConfigReader& root) {
  const ConfigReader in = root.section(kRootKeys["deployment"]);
  return in.has("prefill") || in.has("decode");
}

std::vector<const EngineProfile*> serving_engines(ConfigReader& root) {
  ConfigReader serving = root.section(kRootKeys["serving"]);
  const EngineProfile& scenarios = read_engine_profile(serving);
  if (!has_pools(root)) {
    return {&scenarios};
  }
  std::vector<const EngineProfile*> out;
  for (const Key& key : {kDeploymentKeys["prefill"], kDeploymentKeys["decode"]}) {
    ConfigReader pool = root.section(kRootKeys["deployment"]).section(key);
    if (!pool.has("serving")) {  // asking for the section would make it one of the resolved scenario's
      out.push_back(&scenarios);
      continue;
    }
    ConfigReader own = pool.section(kPoolKeys["serving"]);
    default_engine(own, std::string(scenarios.name));
    out.push_back(&read_engine_profile(own));
  }
  return out;
}

namespace {

// Settings of `serving` that the pool's own section hides and does not have.
void note_hidden_settings(ConfigReader& root, const Key& key, InstancePool& pool) {
  ConfigReader in = root.section(kRootKeys["deployment"]).section(key);
  if (!in.has("serving")) {
    return;
  }
  const ConfigReader own = in.section(kPoolKeys["serving"]);
  std::vector<std::string> hidden = root.section(kRootKeys["serving"]).keys();
  std::erase_if(hidden, [&](const std::string& name) { return name == "engine" || own.has(name); });
  if (!hidden.empty()) {
    pool.serving.idle_knobs.push_back(
        fmt::format("`serving`: {} {} no effect on {} instances, whose settings are those of deployment.{}.serving.",
                    fmt::join(hidden, ", "), hidden.size() > 1 ? "have" : "has", key.name, key.name));
  }
}

}  // namespace

DeploymentOptions read_deployment(ConfigReader& root, const Scenario& s) {
  ConfigReader in = root.section(kRootKeys["deployment"]);
  DeploymentOptions out;
  out.router = or_engine(in, kDeploymentKeys["router"],
                         serving_engines(root).front()->instance_router(s.requests.prefixes.known()));
  out.retry_limit = in.read<int>(kDeploymentKeys["retry_limit"]);
  read_after_loss(in, out);
  if (!has_pools(root)) {
    const int instances = in.read<int>(kDeploymentKeys["instances"]);
    check_gpus(in, instances, s.cluster);
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
  out.pools.push_back(read_pool(root, kDeploymentKeys["prefill"], InstanceRole::kPrefill, s));
  out.pools.push_back(read_pool(root, kDeploymentKeys["decode"], InstanceRole::kDecode, s));
  note_hidden_settings(root, kDeploymentKeys["prefill"], out.pools.front());
  note_hidden_settings(root, kDeploymentKeys["decode"], out.pools.back());
  return out;
}

}  // namespace epsim
