#include "models/network/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/core/choice.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

void check_options(const ClusterSpec& cluster, const FabricOptions& options) {
  const auto need = [](bool holds, const char* key, const std::string& what) { refuse_if(!holds, key, what); };
  const bool leaves = options.kind == FabricKind::kLeafSpine;
  const std::string_view kind = kFabricNames[static_cast<std::size_t>(options.kind)];
  need(!leaves || options.nodes_per_leaf >= 1, "nodes_per_leaf",
       fmt::format("nodes_per_leaf is {}; a leaf_spine fabric has at least one node on a leaf.",
                   options.nodes_per_leaf));
  need(leaves || options.nodes_per_leaf == 0, "nodes_per_leaf",
       fmt::format("nodes_per_leaf is for the leaf_spine fabric; {} has no such leaves.", kind));
  need(options.oversubscription > 0 && options.oversubscription < kUnlimited.count(), "oversubscription",
       fmt::format("oversubscription is {}; it must be positive (1 = none, 2 = half the rate upwards).",
                   options.oversubscription));
  need(options.kind != FabricKind::kSingleSwitch || options.oversubscription == 1.0, "oversubscription",
       "a single_switch fabric has no tier to oversubscribe; leave oversubscription at 1 or choose leaf_spine or "
       "rail_optimised.");
  const bool pcie = cluster.node.intra == IntraLink::kPcie;
  need(options.host_bridges >= 1 && options.host_bridges <= cluster.node.gpus, "host_bridges",
       fmt::format("host_bridges is {}; a node of {} GPUs has 1 to {}.", options.host_bridges, cluster.node.gpus,
                   cluster.node.gpus));
  need(pcie || options.host_bridges == 1, "host_bridges", "host_bridges is for PCIe nodes; this node has an NVSwitch.");
  need(cluster.node.gpus % options.host_bridges == 0, "host_bridges",
       fmt::format("{} GPUs do not divide over {} host bridges.", cluster.node.gpus, options.host_bridges));
  need(options.host_bridges == 1 || options.bridge_rate.count() > 0, "bridge_rate",
       "more than one host bridge needs bridge_rate, the rate between two of them in each direction, above zero.");
  need(options.nic_attach_rate.count() > 0, "nic_attach_rate", "a NIC is attached at a rate above zero.");
}

void leave_out(TopologyPlan& plan, const std::vector<std::string>& missing) {
  for (const std::string& name : missing) {
    if (std::erase_if(plan.links, [&](const TopologyLink& link) { return link.name == name; }) == 0) {
      throw InputError({"", 0, "missing_links"}, unknown_name("link", name, entry_names(plan.links)));
    }
  }
}

// Adds a cluster to a plan part by part; vertices of a part are remembered for the next.
class Builder {
 public:
  Builder(const ClusterSpec& cluster, const FabricOptions& options)
      : cluster_(cluster), options_(options), groups_(nic_groups(cluster.node)) {}

  TopologyPlan build() {
    add_gpus();
    for (int n = 0; n < cluster_.nodes; ++n) {
      add_inside(n);
    }
    if (groups_.groups_per_node > 0) {
      for (int n = 0; n < cluster_.nodes; ++n) {
        add_nics(n);
      }
      add_fabric();
    }
    return std::move(plan_);
  }

 private:
  int gpu(int node, int i) const { return node * cluster_.node.gpus + i; }
  int nic(int node, int k) const { return first_nic_ + node * groups_.groups_per_node + k; }
  int bridge_of(int i) const { return i * options_.host_bridges / cluster_.node.gpus; }
  bool pcie() const { return cluster_.node.intra == IntraLink::kPcie; }

  void add_gpus() {
    for (int g = 0; g < cluster_.gpus(); ++g) {
      plan_.add({fmt::format("gpu{}", g), VertexKind::kGpu, g / cluster_.node.gpus});
    }
  }

  void add_inside(int n) {
    if (!pcie() && cluster_.node.gpus == 1) {
      return;  // nobody to switch to
    }
    const int first = static_cast<int>(plan_.vertices.size());
    first_switch_.push_back(first);
    for (int b = 0; b < options_.host_bridges; ++b) {
      plan_.add(pcie() ? TopologyVertex{fmt::format("node{}.bridge{}", n, b), VertexKind::kHostBridge, n}
                       : TopologyVertex{fmt::format("node{}.nvswitch", n), VertexKind::kNvSwitch, n});
    }
    for (int i = 0; i < cluster_.node.gpus; ++i) {
      const std::string port = fmt::format("gpu{}.port", gpu(n, i));
      plan_.connect(gpu(n, i), first + bridge_of(i), cluster_.node.intra_rate, port + ".out", port + ".in");
    }
    for (int a = 0; a < options_.host_bridges; ++a) {
      for (int b = a + 1; b < options_.host_bridges; ++b) {
        plan_.connect(first + a, first + b, options_.bridge_rate, fmt::format("node{}.bridge{}.to{}", n, a, b),
                      fmt::format("node{}.bridge{}.to{}", n, b, a));
      }
    }
  }

  void add_nics(int n) {
    for (int k = 0; k < groups_.groups_per_node; ++k) {
      const std::string name = fmt::format("node{}.nic{}", n, k);
      const int vertex = plan_.add({name, VertexKind::kNic, n});
      if (n == 0 && k == 0) {
        first_nic_ = vertex;
      }
      const int first_gpu = k * groups_.gpus_per_group;
      for (int i = first_gpu; i < first_gpu + groups_.gpus_per_group; ++i) {
        plan_.vertices[gpu(n, i)].own_nic = vertex;
        if (!pcie()) {
          const std::string attach = fmt::format("gpu{}.nic", gpu(n, i));
          plan_.connect(gpu(n, i), vertex, options_.nic_attach_rate, attach + ".out", attach + ".in");
        }
      }
      if (pcie()) {
        plan_.connect(first_switch_[n] + bridge_of(first_gpu), vertex, options_.nic_attach_rate, name + ".bridge.out",
                      name + ".bridge.in");
      }
    }
  }

  // Switch number of a NIC group in the lowest tier of the fabric.
  int switch_of(int n, int k) const {
    if (options_.kind == FabricKind::kSingleSwitch) {
      return 0;
    }
    return options_.kind == FabricKind::kLeafSpine ? n / options_.nodes_per_leaf : k;
  }

  std::string switch_name(int s) const {
    if (options_.kind == FabricKind::kSingleSwitch) {
      return "fabric";
    }
    return fmt::format("{}{}", options_.kind == FabricKind::kLeafSpine ? "leaf" : "rail", s);
  }

  void add_fabric() {
    const int switches = switch_of(cluster_.nodes - 1, groups_.groups_per_node - 1) + 1;
    const int first = static_cast<int>(plan_.vertices.size());
    for (int s = 0; s < switches; ++s) {
      plan_.add({switch_name(s), VertexKind::kLeaf});
    }
    std::vector<int> nics_below(switches, 0);
    for (int n = 0; n < cluster_.nodes; ++n) {
      for (int k = 0; k < groups_.groups_per_node; ++k) {
        const std::string& name = plan_.vertices[nic(n, k)].name;
        const int s = switch_of(n, k);
        ++nics_below[s];
        plan_.connect(nic(n, k), first + s, groups_.rate, name + ".out", name + ".in");
      }
    }
    if (switches == 1) {
      return;
    }
    const int spine = plan_.add({"spine", VertexKind::kSpine});
    for (int s = 0; s < switches; ++s) {
      const BytesPerSecond up = groups_.rate * nics_below[s] / options_.oversubscription;
      plan_.connect(first + s, spine, up, switch_name(s) + ".up", switch_name(s) + ".down");
    }
  }

  const ClusterSpec& cluster_;
  const FabricOptions& options_;
  NicGroups groups_;
  TopologyPlan plan_;
  std::vector<int> first_switch_;  // [node]
  int first_nic_ = 0;
};

}  // namespace

NicGroups nic_groups(const NodeSpec& node) {
  if (node.nics == 0) {
    return {};
  }
  const int groups = std::gcd(node.gpus, node.nics);
  return {node.gpus / groups, groups, node.nic_rate * (static_cast<double>(node.nics) / groups)};
}

TopologyPlan plan_topology(const ClusterSpec& cluster, const FabricOptions& options) {
  cluster.validate();
  check_options(cluster, options);
  TopologyPlan plan = Builder(cluster, options).build();
  leave_out(plan, options.missing_links);
  return plan;
}

}  // namespace epsim
