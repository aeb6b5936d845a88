#include "sim/domain/parallelism.h"

#include <fmt/format.h>

#include "sim/core/error.h"

namespace epsim {

void Parallelism::validate(const MoeSpec& model, const ClusterShape& shape) const {
  const auto need = [&](bool holds, const std::string& key, const std::string& what) {
    if (!holds) {
      throw InputError({"", 0, "parallelism." + key}, what);
    }
  };
  need(gpus == shape.gpus, "gpus", fmt::format("the instance spans {} GPUs, the cluster has {}.", gpus, shape.gpus));
  need(attention_tp >= 1 && gpus % attention_tp == 0, "attention_tp",
       fmt::format("{} GPUs do not divide into DP ranks of {} GPUs.", gpus, attention_tp));
  need(attention_tp <= shape.gpus_per_node ? shape.gpus_per_node % attention_tp == 0
                                           : attention_tp % shape.gpus_per_node == 0,
       "attention_tp",
       fmt::format("DP ranks of {} GPUs do not align with nodes of {}.", attention_tp, shape.gpus_per_node));
  need(model.attention.heads % attention_tp == 0, "attention_tp",
       fmt::format("{} attention heads do not divide over {} GPUs.", model.attention.heads, attention_tp));
}

}  // namespace epsim
