#include "sim/domain/cluster_spec.h"

#include <fmt/format.h>

#include "sim/core/refuse.h"

namespace epsim {

void ClusterSpec::validate() const {
  const auto need = [&](bool holds, const std::string& what) { refuse_if(!holds, {node.source, 0, node.name}, what); };
  need(nodes >= 1, "a cluster has at least one node.");
  need(node.gpus >= 1, "a node has at least one GPU.");
  need(node.gpu.bf16_peak.count() > 0 && node.gpu.memory_bandwidth.count() > 0 && node.gpu.memory.count() > 0,
       fmt::format("GPU {}: peak rate, memory and memory bandwidth must be positive.", node.gpu.name));
  need(node.gpus == 1 || node.intra_rate.count() > 0, "the link between the GPUs of a node must have a positive rate.");
  need(nodes == 1 || (node.nics >= 1 && node.nic_rate.count() > 0),
       fmt::format("{} nodes need NICs with a positive rate; this node has none.", nodes));
  need(
      node.nics == 0 || node.gpus % node.nics == 0 || node.nics % node.gpus == 0,
      fmt::format("{} NICs do not divide over {} GPUs: each NIC serves equally many GPUs, or each GPU has equally many "
                  "NICs.",
                  node.nics, node.gpus));
}

}  // namespace epsim
