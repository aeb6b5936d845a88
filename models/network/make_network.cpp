#include "models/network/make_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/network/fabric_network.h"
#include "models/network/two_tier.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

// A graph of 4096 GPUs and its routes take about a gigabyte.
constexpr int kMaxMinGpus = 512, kRoutedGpus = 4096;

// Ports and NICs are all there is to wait for: one switch between the nodes, and a GPU reaches its NIC beside its port.
bool plain(const ClusterSpec& cluster, const FabricOptions& fabric) {
  const bool shared_port = cluster.node.intra == IntraLink::kPcie && (cluster.nodes > 1 || fabric.host_bridges > 1);
  // Options that do not fit one switch are refused by the topology, not passed over here.
  return fabric.kind == FabricKind::kSingleSwitch && fabric.nodes_per_leaf == 0 && fabric.oversubscription == 1.0 &&
         fabric.host_bridges == 1 && fabric.nic_attach_rate == kUnlimited && fabric.missing_links.empty() &&
         !shared_port;
}

// A transport that was never measured on a link has no price there: DeepEP's kernels are not an all-to-all of NCCL.
void check_measured(const LinkProfile& link, Transport transport, const char* where) {
  for (const Direction direction : {Direction::kDispatch, Direction::kCombine}) {
    const CollectiveKind kind = collective_of(transport, direction);
    const bool stands_in = kind < CollectiveKind::kDeepEpDispatch;  // LinkProfile::time takes the all-to-all's curve
    if (!stands_in && std::none_of(link.curves.begin(), link.curves.end(),
                                   [&](const CollectiveCurve& curve) { return curve.kind == kind; })) {
      throw InputError({"", 0, "transport"},
                       fmt::format("{} was not measured {} ({} has no {} curve); choose nccl_p2p or "
                                   "allgather_reducescatter, or a node whose link profile has it.",
                                   kTransportNames[static_cast<std::size_t>(transport)], where, link.name,
                                   kCollectiveNames[static_cast<std::size_t>(kind)]));
    }
  }
}

void check_size(const ClusterSpec& cluster, NetworkModel model, bool one_switch) {
  refuse_if(model == NetworkModel::kMaxMin && cluster.gpus() > kMaxMinGpus, "model",
            fmt::format("max_min follows a flow for every two GPUs, of at most {} GPUs; an instance has {} here, and "
                        "one exchange would take about {:.0f} s. Choose two_tier{}.",
                        kMaxMinGpus, cluster.gpus(), max_min_time(cluster.gpus()).count(),
                        one_switch ? ", or fair_share where rows are sent once per GPU or per expert" : ""));
  refuse_if(cluster.gpus() > kRoutedGpus, "kind",
            fmt::format("a network that is not NVLink nodes on one switch needs a route for every two GPUs, of at most "
                        "{} GPUs; an instance has {} here.",
                        kRoutedGpus, cluster.gpus()));
}

}  // namespace

Seconds max_min_time(int gpus) { return Seconds(0.4 * std::pow(gpus / 256.0, 3)); }

std::unique_ptr<Network> make_network(const ClusterSpec& cluster, NetworkProfile profile,
                                      const NetworkOptions& options) {
  if (cluster.node.gpus > 1) {
    check_measured(profile.intra, options.transport, "inside the node");
  }
  if (cluster.nodes > 1) {
    check_measured(profile.inter, options.transport, "between the nodes");
  }
  refuse_if(options.model == NetworkModel::kFairShare && !plain(cluster, options.fabric), "model",
            "fair_share knows GPU ports and NICs on one switch alone; max_min any fabric.");
  if (options.model == NetworkModel::kMaxMin || !plain(cluster, options.fabric)) {
    check_size(cluster, options.model, plain(cluster, options.fabric));
    return std::make_unique<FabricNetwork>(cluster, std::move(profile), options);
  }
  return std::make_unique<TwoTierNetwork>(cluster, std::move(profile), options);
}

}  // namespace epsim
