#include "sim/scenario/expert_layout.h"

#include <fmt/format.h>

#include "sim/scenario/root_keys.h"
#include "sim/scheduler/engines.h"

namespace epsim {
namespace {

void check_slots_of(const ConfigReader& in, int copies, const MoeSpec& model, const Parallelism& parallelism) {
  const int ranks = parallelism.ep_size();
  const bool whole = model.experts % ranks == 0, made_up = copies > 0 && (model.experts + copies) % ranks == 0;
  in.check(whole || made_up, "nodes",
           fmt::format("{} experts do not divide over {} {}; choose a node count or cluster.gpus_per_node that divides "
                       "them or policies whose num_redundant_experts make up for it.",
                       model.experts, ranks, parallelism.moe_tp == 1 ? "GPUs" : "EP ranks"));
}

}  // namespace

void read_ep_size(ConfigReader& in, const Key& key, int moe_tp, Parallelism& parallelism) {
  const auto ep_size = in.maybe<int>(key);
  in.check(!ep_size || parallelism.gpus % *ep_size == 0, "ep_size",
           fmt::format("{} GPUs do not divide over {} EP ranks.", parallelism.gpus, ep_size.value_or(1)));
  parallelism.moe_tp = ep_size ? parallelism.gpus / *ep_size : moe_tp;
}

void check_parallelism(const ConfigReader& in, const Parallelism& parallelism, const MoeSpec& model,
                       const ClusterSpec& cluster) {
  try {
    parallelism.validate(model, shape_of(cluster));
  } catch (const InputError& e) {
    in.fail(e.place.key.substr(e.place.key.rfind('.') + 1), e.problem);
  }
}

void check_ep_size(const ConfigReader& in, const Parallelism& parallelism, const ServingOptions& serving,
                   const DispatchOptions& dispatch) {
  const int ranks = parallelism.ep_size();
  in.check(
      ranks == 1 || parallelism.moe_tp == 1 || find_engine(serving.engine).partial_ep, "ep_size",
      fmt::format("{} has experts over all GPUs or none: ep_size {} or 1, not {}; sglang_0_4_10 takes any divisor.",
                  serving.engine, parallelism.gpus, ranks));
  const Transport transport = dispatch.network.transport;
  const bool all = transport == Transport::kAllGatherReduceScatter || transport == Transport::kAllGatherAllReduce ||
                   transport == Transport::kAllReduce;
  in.check(
      parallelism.moe_tp == 1 || all, "ep_size",
      fmt::format("EP ranks of {} GPUs get all tokens: set dispatch.transport to allgather_reducescatter, "
                  "allgather_allreduce or allreduce. Engines send tokens expert by expert only with ep_size {}, one "
                  "GPU an EP rank.",
                  parallelism.moe_tp, parallelism.gpus));
}

void check_rank_over_nodes(const ConfigReader& in, const ClusterSpec& cluster, const Parallelism& parallelism,
                           const DispatchOptions& dispatch) {
  in.check(parallelism.attention_tp <= cluster.node.gpus || dispatch.network.transport == Transport::kAllReduce,
           "attention_tp",
           fmt::format("a DP rank of {} GPUs spans nodes of {}: its parts are added up over all of them by "
                       "dispatch.transport allreduce, no other.",
                       parallelism.attention_tp, cluster.node.gpus));
}

void check_slots(ConfigReader root, ConfigReader policy, const Scenario& s) {
  const char* const kCopies = "num_redundant_experts";
  const int copies = policy.has(kCopies) ? policy.required<int>(kCopies, Bound::kNotNegative) : 0;
  ConfigReader deployment = root.section(kRootKeys["deployment"]);
  if (s.deployment.single()) {
    check_slots_of(root.section(kRootKeys["cluster"]), copies, s.model, s.parallelism);
  }
  for (const InstancePool& pool : s.deployment.pools) {
    const ConfigReader in = pool.role == InstanceRole::kWhole     ? root.section(kRootKeys["cluster"])
                            : pool.role == InstanceRole::kPrefill ? deployment.section("prefill")
                                                                  : deployment.section("decode");
    check_slots_of(in, copies, s.model, pool.parallelism);
  }
}

}  // namespace epsim
