#include "sim/domain/parallelism.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "sim/core/refuse.h"

namespace epsim {
namespace {

// Columns of a quantised weight matrix that kernels take at once: fp8 blocks share a scale (DeepSeek-V3,
// weight_block_size).
constexpr int kQuantisedBlock = 128;

// The values of attention_tp that divide the GPUs of a node, or are all, and the heads.
std::string allowed_tps(const MoeSpec& model, const ClusterShape& shape) {
  std::vector<int> out;
  for (int tp = 1; tp <= shape.gpus; ++tp) {
    const bool aligned =
        tp == shape.gpus ? tp % shape.gpus_per_node == 0 : tp <= shape.gpus_per_node && shape.gpus_per_node % tp == 0;
    if (aligned && shape.gpus % tp == 0 && model.attention.heads % tp == 0) {
      out.push_back(tp);
    }
  }
  return fmt::format(" Allowed: {}.", fmt::join(out, ", "));
}

}  // namespace

ClusterShape Parallelism::ep_shape(const ClusterShape& shape) const {
  return {ep_size(), std::max(1, shape.gpus_per_node / moe_tp)};
}

MoeSpec Parallelism::one_gpu_of(MoeSpec model) const {
  model.moe_intermediate /= moe_tp;
  // Experts of 4 bits beside bf16 keep their width, which is how their kernels were measured; in memory some engines round
  // a part of gpt-oss's up (360 to 384 columns), 0.5 GiB of a GPU with eight of them.
  if (moe_tp > 1 && model.weight_bytes(WeightsOf::kFfn) < 2) {
    model.moe_intermediate = (model.moe_intermediate + kQuantisedBlock - 1) / kQuantisedBlock * kQuantisedBlock;
  }
  return model;
}

bool Parallelism::splits_blocks(const MoeSpec& model) const {
  return model.dtype == WeightType::kFp8 && moe_tp > 1 && model.moe_intermediate / moe_tp % kQuantisedBlock != 0;
}

void Parallelism::validate(const MoeSpec& model, const ClusterShape& shape) const {
  const auto need = [&](bool holds, const std::string& key, const std::string& what) {
    refuse_if(!holds, "parallelism." + key,
              what + (key == "attention_tp" && !model.dense() ? allowed_tps(model, shape) : ""));
  };
  need(gpus == shape.gpus, "gpus", fmt::format("the instance spans {} GPUs, the cluster has {}.", gpus, shape.gpus));
  need(attention_tp >= 1 && gpus % attention_tp == 0, "attention_tp",
       fmt::format("{} GPUs do not divide into DP ranks of {} GPUs.", gpus, attention_tp));
  need(attention_tp <= shape.gpus_per_node ? shape.gpus_per_node % attention_tp == 0
                                           : attention_tp % shape.gpus_per_node == 0,
       "attention_tp",
       fmt::format("DP ranks of {} GPUs do not align with nodes of {}.", attention_tp, shape.gpus_per_node));
  need(attention_tp <= shape.gpus_per_node || attention_tp == gpus, "attention_tp",
       fmt::format("DP ranks of {} GPUs span nodes of {}; only one rank, over all nodes of the instance, may.",
                   attention_tp, shape.gpus_per_node));
  need(model.attention.heads % attention_tp == 0, "attention_tp",
       fmt::format("{} attention heads do not divide over {} GPUs.", model.attention.heads, attention_tp));
  need(!model.dense() || attention_tp == gpus, "attention_tp",
       fmt::format("an instance of a dense model is one DP rank: set attention_tp {}, all of its GPUs; for smaller "
                   "instances set cluster.nodes 1, cluster.gpus_per_node {} and deployment.instances.",
                   gpus, attention_tp));
  need(moe_tp >= 1 && gpus % moe_tp == 0, "ep_size",
       fmt::format("{} GPUs do not divide into EP ranks of {} GPUs.", gpus, moe_tp));
  need(moe_tp <= shape.gpus_per_node ? shape.gpus_per_node % moe_tp == 0 : moe_tp % shape.gpus_per_node == 0, "ep_size",
       fmt::format("EP ranks of {} GPUs do not align with nodes of {}.", moe_tp, shape.gpus_per_node));
  need(model.moe_intermediate % moe_tp == 0, "ep_size",
       fmt::format("the {} columns of an expert do not divide over EP ranks of {} GPUs.", model.moe_intermediate,
                   moe_tp));
}

}  // namespace epsim
