#include "sim/scenario/network_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "models/catalogue/catalogue.h"
#include "models/network/make_network.h"
#include "sim/scenario/read_names.h"

namespace epsim {
namespace {

template <class Enum, std::size_t N>
Enum read_enum(ConfigReader& in, const std::string& key, const std::array<std::string_view, N>& all) {
  const std::vector<std::string> names(all.begin(), all.end());
  const std::string name = in.choice(key, names, names.front());
  return static_cast<Enum>(std::find(names.begin(), names.end(), name) - names.begin());
}

constexpr double kScaledBlock = 128;  // elements of a row that share a scale, in DeepEP and in SGLang's quantisation
constexpr double kScaleBytes = 4;     // float32
constexpr double kLowLatencyHeader = 16;  // DeepEP internode_ll.cu: an int4 with the row's source, ahead of each row

// In the order of Transport; then those that are several of them.
constexpr TransportEntry kTransports[] = {
    {kTransportNames[0],
     "grouped ncclSend and ncclRecv: an all-to-all of exactly the rows that are needed; between nodes by the NIC of "
     "the "
     "receiver's index, relayed over NVLink (dispatch.pxn)",
     "any GPUs and network; research engines, not a release of SGLang or vLLM",
     "CRAFT (arXiv 2603.28768), section 4: dynamic all-to-all over NCCL; NCCL 2.12 src/graph/search.cc "
     "(NCCL_P2P_PXN_LEVEL)"},
    {kTransportNames[1], "every token to every GPU by all-gather, the outputs added up by reduce-scatter",
     "any GPUs and network; SGLang without DeepEP, vLLM's default; older releases all-reduce: up to twice the bytes",
     "SGLang PR 8539 (layers/dp_attention.py); vLLM v0.11 envs.py (VLLM_ALL2ALL_BACKEND)"},
    {kTransportNames[2],
     "DeepEP's high-throughput kernels: a row a node over RDMA, to the GPU of the sender's index, fanned out over "
     "NVLink",
     "Hopper or later with InfiniBand or RoCE; no CUDA graphs",
     "github.com/deepseek-ai/DeepEP README; SGLang "
     "server_args.py (deepep_mode)"},
    {kTransportNames[3],
     "DeepEP's low-latency kernels: a row a (token, expert) over RDMA from the sender's own NIC, buffers of a fixed "
     "size",
     "Hopper or later with InfiniBand or RoCE; decode only: 128 tokens a GPU in SGLang's default",
     "github.com/deepseek-ai/DeepEP README; SGLang layers/moe/ep_moe/token_dispatcher.py "
     "(SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK)"},
    {"deepep_auto", "deepep_normal for steps with prompts, deepep_low_latency for the others",
     "as the two; SGLang's --deepep-mode auto", "SGLang layers/moe/ep_moe/token_dispatcher.py (DeepEPMode.resolve)"}};
constexpr std::string_view kAuto = kTransports[4].name;

// As `dispatch.transport` names it.
std::string_view transport_name(const DispatchOptions& dispatch) {
  return dispatch.decode_steps != nullptr ? kAuto
                                          : kTransports[static_cast<std::size_t>(dispatch.network.transport)].name;
}

// The scenario's own `dispatch`, for what a pool's leaves out.
struct ScenarioDispatch {
  ConfigReader in;
  std::string_view transport;
};

// A section `dispatch`, and for what it leaves out that of the scenario.
class DispatchReader {
 public:
  DispatchReader(ConfigReader in, std::optional<ScenarioDispatch> other, const EngineDefault<std::string>& transport,
                 const MoeSpec& model, const NodeSpec& node)
      : in_(std::move(in)), other_(std::move(other)), transport_(transport), model_(model), node_(node) {}

  DispatchOptions read(const FabricOptions& fabric, NetworkModel model) {
    std::vector<std::string> names;
    for (const TransportEntry& entry : kTransports) {
      names.emplace_back(entry.name);
    }
    const std::string name = choice("transport", names, transport_.value, transport_.source);
    if (name != kAuto) {
      const auto transport = static_cast<Transport>(std::find(names.begin(), names.end(), name) - names.begin());
      return of(transport, name, fabric, model);
    }
    DispatchOptions out = of(Transport::kDeepEpNormal, name, fabric, model);
    out.decode_steps = std::make_shared<const DispatchOptions>(of(Transport::kDeepEpLowLatency, name, fabric, model));
    return out;
  }

 private:
  std::string choice(const std::string& key, const std::vector<std::string>& allowed, const std::string& fallback,
                     const std::string& source) {
    const bool stated = other_ && other_->in.has(key);
    std::string value = in_.choice(key, allowed, stated ? other_->in.required<std::string>(key) : fallback);
    in_.default_from(key, stated ? "the scenario's dispatch" : source);
    return value;
  }
  double element_bytes(const std::string& key, bool fp8, const std::string& source) {
    return choice(key, {"bf16", "fp8"}, fp8 ? "fp8" : "bf16", source) == "bf16" ? 2.0
                                                                                : 1.0 + kScaleBytes / kScaledBlock;
  }
  // A key that transports have values of their own for: the other section's where it has the same transport.
  template <class T>
  std::optional<T> own(const std::string& key, const std::string& transport) {
    const bool scenarios = !in_.has(key) && other_ && other_->transport == transport;
    return scenarios ? other_->in.maybe<T>(key) : in_.maybe<T>(key);
  }

  Dedup dedup(Transport transport, const std::string& name) {
    const std::string given = own<std::string>("dedup", name).value_or("");
    if (transport == Transport::kAllGatherReduceScatter) {
      in_.check(given.empty(), "dedup", name + " sends every token to every GPU: there is nothing to send once.");
      return Dedup::kEverywhere;
    }
    const std::string fixed = transport == Transport::kDeepEpNormal ? "node"
                              : transport == Transport::kNcclP2p    ? "gpu"
                                                                    : "none";
    in_.check(name != kAuto || given.empty(), "dedup", name + " has its own way; leave dedup out.");
    const std::string chosen =
        name == kAuto ? fixed : in_.choice("dedup", {"none", "gpu", "node"}, given.empty() ? fixed : given);
    in_.check(transport == Transport::kNcclP2p || chosen == fixed, "dedup",
              fmt::format("{} has its own way, which is '{}'; leave dedup out.", name, fixed));
    return chosen == "none" ? Dedup::kNone : chosen == "gpu" ? Dedup::kGpu : Dedup::kNode;
  }

  bool pxn(Transport transport, const std::string& name) {
    const bool nccl = transport == Transport::kNcclP2p;
    const bool pxn = in_.optional<bool>("pxn", own<bool>("pxn", name).value_or(nccl && may_relay(node_)));
    in_.default_from("pxn", nccl && may_relay(node_) ? "NCCL's default since 2.12 where NVLink joins the GPUs" : "");
    in_.check(!pxn || nccl, "pxn",
              "only nccl_p2p's messages are relayed by PXN; DeepEP and all-gathers have their own way.");
    in_.check(!pxn || may_relay(node_), "pxn",
              fmt::format("PXN relays over NVLink, which {} does not have: its GPUs are joined by PCIe.", node_.name));
    return pxn;
  }

  DispatchOptions of(Transport transport, const std::string& name, const FabricOptions& fabric, NetworkModel model) {
    DispatchOptions out;
    out.network = {model, transport, fabric, pxn(transport, name)};
    out.dedup = dedup(transport, name);
    const bool deep_ep = transport == Transport::kDeepEpNormal || transport == Transport::kDeepEpLowLatency;
    const bool fp8 = deep_ep && model_.bytes_per_weight < 2;
    out.dispatch_bytes =
        element_bytes("dispatch_dtype", fp8, fp8 ? "DeepEP dispatches fp8 models in fp8 (README)" : "");
    out.combine_bytes = element_bytes("combine_dtype", false, "");
    in_.check(!deep_ep || out.combine_bytes == 2.0, "combine_dtype", "DeepEP combines in bf16.");
    if (transport == Transport::kDeepEpLowLatency) {
      out.dispatch_bytes += kLowLatencyHeader / model_.hidden;
    }
    const bool counts = own<bool>("exchange_counts", name).value_or(transport == Transport::kNcclP2p);
    out.exchange_counts = in_.optional<bool>("exchange_counts", counts);
    in_.check(!out.exchange_counts || transport == Transport::kNcclP2p, "exchange_counts",
              "only nccl_p2p exchanges counts ahead; the other transports' times contain what they need.");
    return out;
  }

  ConfigReader in_;
  std::optional<ScenarioDispatch> other_;
  const EngineDefault<std::string>& transport_;
  const MoeSpec& model_;
  const NodeSpec& node_;
};

void read_gpus_per_node(ConfigReader& in, ClusterSpec& cluster) {
  NodeSpec& node = cluster.node;
  const auto gpus = in.maybe<int>("gpus_per_node", Bound::kPositive);
  if (!gpus) {
    return;
  }
  in.check(*gpus <= node.gpus, "gpus_per_node", fmt::format("{} has {} GPUs, not {}.", node.name, node.gpus, *gpus));
  in.check(node.nics * *gpus % node.gpus == 0, "gpus_per_node",
           fmt::format("{} NICs for {} GPUs do not divide: {} GPUs would have {:.2f} of them.", node.nics, node.gpus,
                       *gpus, static_cast<double>(node.nics) * *gpus / node.gpus));
  node.nics = node.nics * *gpus / node.gpus;
  node.gpus = *gpus;
}

FabricOptions read_fabric(ConfigReader& cluster_section, const ClusterSpec& cluster) {
  ConfigReader in = cluster_section.section("fabric");
  FabricOptions out;
  out.kind = read_enum<FabricKind>(in, "kind", kFabricNames);
  out.nodes_per_leaf = in.maybe<int>("nodes_per_leaf", Bound::kPositive).value_or(0);
  out.oversubscription = in.optional<double>("oversubscription", 1.0, Bound::kPositive);
  out.nic_attach_rate = in.maybe<BytesPerSecond>("nic_attach_rate", Bound::kPositive).value_or(kUnlimited);
  out.host_bridges = in.optional<int>("host_bridges", 1, Bound::kPositive);
  out.bridge_rate = in.maybe<BytesPerSecond>("bridge_rate", Bound::kPositive).value_or(BytesPerSecond{});
  out.missing_links = in.maybe<std::vector<std::string>>("missing_links").value_or(std::vector<std::string>{});
  in.check(out.kind == FabricKind::kSingleSwitch || (cluster.nodes > 1 && cluster.node.nics > 0), "kind",
           "one node has no fabric beyond itself; leave cluster.fabric.kind out.");
  in.check(out.host_bridges > 1 || !in.has("bridge_rate"), "bridge_rate",
           "bridge_rate is for nodes of several host_bridges.");
  return out;
}

[[noreturn]] void fail_fabric(const ConfigReader& fabric, const InputError& e) {
  const char* cut = fabric.has("missing_links") ? "missing_links" : "kind";
  fabric.fail(fabric.has(e.place.key) ? e.place.key : cut, e.problem);
}

// The faults of a network belong to the key that asked for it.
void try_network(const ClusterSpec& cluster, const NetworkProfile& profile, const NetworkOptions& options,
                 ConfigReader& network, ConfigReader& dispatch, ConfigReader& fabric) {
  try {
    make_network(cluster, profile, options);
  } catch (const InputError& e) {
    if (!e.place.file.empty()) {
      throw;
    }
    if (e.place.key == "model") {
      network.fail("model", e.problem);
    }
    if (e.place.key == "transport") {
      dispatch.fail("transport", e.problem);
    }
    fail_fabric(fabric, e);
  }
}

}  // namespace

ClusterSection read_cluster_section(ConfigReader& root) {
  ConfigReader in = root.required_section("cluster");
  const std::string node = name_or_path(in, "node");
  const int nodes = in.required<int>("nodes", Bound::kPositive);
  NodeEntry entry = at_key(in, "node", [&] { return find_node(node); });
  ClusterSection out{{entry.spec, nodes}, {}, std::move(entry.compute), std::move(entry.network)};
  read_gpus_per_node(in, out.cluster);
  out.cluster.validate();
  out.fabric = read_fabric(in, out.cluster);
  return out;
}

Topology read_topology(const Config& config) {
  ConfigReader root = config.root();
  const ClusterSection section = read_cluster_section(root);
  ConfigReader in = root.section("cluster");
  const ConfigReader fabric = in.section("fabric");
  in.finish();
  try {
    return Topology(plan_topology(section.cluster, section.fabric));
  } catch (const InputError& e) {
    fail_fabric(fabric, e);
  }
}

std::span<const TransportEntry> transport_entries() { return kTransports; }

namespace {

DispatchOptions checked(DispatchOptions out, ConfigReader& root, ConfigReader& in, const ClusterSpec& cluster,
                        const NetworkProfile& profile) {
  ConfigReader network = root.section("network");
  ConfigReader cluster_section = root.section("cluster");
  ConfigReader fabric = cluster_section.section("fabric");
  for (const DispatchOptions* way = &out; way != nullptr; way = way->decode_steps.get()) {
    network.check(
        way->network.model != NetworkModel::kFairShare || way->dedup == Dedup::kGpu || way->dedup == Dedup::kNone,
        "model",
        "fair_share prices rows that are sent once per GPU or per expert (dispatch.dedup gpu or none); "
        "two_tier and max_min price the others.");
    try_network(cluster, profile, way->network, network, in, fabric);
  }
  return out;
}

}  // namespace

DispatchOptions read_dispatch(ConfigReader& root, const ClusterSpec& cluster, const NetworkProfile& profile,
                              const MoeSpec& spec, const FabricOptions& fabric,
                              const EngineDefault<std::string>& transport) {
  ConfigReader network = root.section("network"), in = root.section("dispatch");
  const auto model = read_enum<NetworkModel>(network, "model", kNetworkModelNames);
  return checked(DispatchReader(in, std::nullopt, transport, spec, cluster.node).read(fabric, model), root, in, cluster,
                 profile);
}

DispatchOptions read_pool_dispatch(ConfigReader& root, ConfigReader in, const ClusterSpec& cluster,
                                   const NetworkProfile& profile, const MoeSpec& spec, const DispatchOptions& scenario,
                                   const EngineDefault<std::string>& transport) {
  ConfigReader network = root.section("network");
  const auto model = read_enum<NetworkModel>(network, "model", kNetworkModelNames);
  const ScenarioDispatch other{root.section("dispatch"), transport_name(scenario)};
  return checked(DispatchReader(in, other, transport, spec, cluster.node).read(scenario.network.fabric, model), root,
                 in, cluster, profile);
}

}  // namespace epsim
