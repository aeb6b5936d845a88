#include "sim/scenario/network_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "models/catalogue/catalogue.h"
#include "models/network/make_network.h"
#include "sim/core/limits.h"
#include "sim/scenario/model_sections.h"
#include "sim/scenario/read_names.h"
#include "sim/scenario/root_keys.h"

namespace epsim {

template <>
inline constexpr auto kNames<FabricKind> = choice_in_order<FabricKind>(kFabricNames);
template <>
inline constexpr auto kNames<NetworkModel> = choice_in_order<NetworkModel>(kNetworkModelNames);
// The others are what collectives do, and nobody asks for them.
template <>
inline constexpr auto kNames<Dedup> =
    choice<Dedup>({{"none", Dedup::kNone}, {"gpu", Dedup::kGpu}, {"node", Dedup::kNode}});

namespace {

enum class RowType { kBf16, kFp8, kNvfp4 };

}  // namespace

template <>
inline constexpr auto kNames<RowType> =
    choice<RowType>({{"bf16", RowType::kBf16}, {"fp8", RowType::kFp8}, {"nvfp4", RowType::kNvfp4}});

namespace {

constexpr double kFp4Block = 16;      // elements of an nvfp4 row that share a scale of a byte
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
    {kTransportNames[1],
     "every token to every GPU by all-gather, the outputs added up by reduce-scatter; ranks of unequal length unpadded",
     "any GPUs and network; vLLM's default since v0.11, TensorRT-LLM's inside a node",
     "vLLM v0.11 envs.py (VLLM_ALL2ALL_BACKEND); TensorRT-LLM thop/allgatherOp.cpp (a group of ncclBroadcast)"},
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
    {kTransportNames[4],
     "every token into a buffer of zeros that an all-reduce adds up, there and back: twice the bytes",
     "any GPUs and network; SGLang v0.4.8 without DeepEP",
     "SGLang v0.4.8 layers/dp_attention.py (_dp_gather), layers/communicator.py"},
    {kTransportNames[5],
     "every DP rank padded to the longest, by all-gather; an all-reduce back; allreduce where that moves fewer rows",
     "any GPUs and network; SGLang v0.4.10 without DeepEP",
     "SGLang v0.4.10 layers/dp_attention.py (DPPaddingMode.get_dp_padding_mode)"},
    {kTransportNames[6], "a broadcast of every DP rank by each of its GPUs, and an all-reduce back",
     "any GPUs and network; vLLM v0.9 and v0.10 ('naive')",
     "vLLM v0.9.2 distributed/device_communicators/all2all.py (NaiveAll2AllManager), envs.py (VLLM_ALL2ALL_BACKEND)"},
    {kTransportNames[7],
     "TensorRT-LLM's kernels over NVLink: a row a (token, GPU) into the receiver's memory, added up by the sender",
     "GB200 and GB300 racks; TensorRT-LLM",
     "TensorRT-LLM 1.2 modules/fused_moe/communication/communication_factory.py (NVLinkOneSided)"},
    {"deepep_auto", "deepep_normal for steps with prompts, deepep_low_latency for the others",
     "as the two; SGLang's --deepep-mode auto", "SGLang layers/moe/ep_moe/token_dispatcher.py (DeepEPMode.resolve)"},
    {"allgather_auto", "allreduce for steps with prompts, allgather_reducescatter for the others",
     "any GPUs and network; SGLang v0.5 without DeepEP",
     "SGLang v0.5.9 layers/dp_attention.py (DpPaddingMode.get_dp_padding_mode), layers/communicator.py"}};

// A transport that is one for steps with prompts and another for the rest.
struct AutoTransport {
  std::string_view name;
  Transport prompts, decodes;
};
constexpr AutoTransport kAutos[] = {
    {kTransports[kTransportNames.size()].name, Transport::kDeepEpNormal, Transport::kDeepEpLowLatency},
    {kTransports[kTransportNames.size() + 1].name, Transport::kAllReduce, Transport::kAllGatherReduceScatter}};
const AutoTransport* find_auto(std::string_view name) {
  const auto* at = std::ranges::find(kAutos, name, &AutoTransport::name);
  return at != std::end(kAutos) ? at : nullptr;
}

// How a transport that sends every token to every GPU does so.
std::optional<Dedup> to_all(Transport transport) {
  switch (transport) {
    case Transport::kAllGatherReduceScatter:
    case Transport::kAllReduce:
      return Dedup::kEven;
    case Transport::kAllGatherAllReduce:
      return Dedup::kPadded;
    case Transport::kBroadcastAllReduce:
      return Dedup::kByTpRank;
    default:
      return std::nullopt;
  }
}

constexpr KeyTable kClusterKeys({
    {"node", key::name_or_other([] { return entry_names(list_nodes()); }, "epsim list hardware"), key::kRequired,
     "A shipped node type, or the path of a node description."},
    {"nodes", key::whole(Bound::kPositive), key::kRequired, "Number of nodes of one instance."},
    {"gpus_per_node", key::whole(Bound::kPositive), key::by("all GPUs of the node"),
     "GPUs used of each node; NICs are reduced in proportion."},
    {"fabric", key::section(), key::kNone, "Switches between the nodes."},
});

constexpr FabricOptions kPlain{};
constexpr KeyTable kFabricKeys({
    {"kind", key::one_of<FabricKind>(), key::is(kPlain.kind), "How the nodes are connected."},
    {"nodes_per_leaf", key::whole(Bound::kPositive), key::by("required with leaf_spine"),
     "Nodes connected to one leaf switch."},
    {"oversubscription", key::number(Bound::kPositive), key::is(kPlain.oversubscription),
     "Rate into a leaf switch over its rate to the spine."},
    {"nic_attach_rate", key::byte_rate(Bound::kPositive), key::by("no limit"), "Rate between a NIC and its GPUs."},
    {"host_bridges", key::whole(Bound::kPositive), key::is(kPlain.host_bridges),
     "Host bridges of a node that GPUs and NICs are divided over."},
    {"bridge_rate", key::byte_rate(Bound::kPositive), key::by("no limit"), "Rate between two host bridges of a node."},
    {"missing_links", key::texts(), key::kNone, "Links that are down, by the names that the topology drawing shows."},
});

constexpr KeyTable kNetworkKeys({
    {"model", key::one_of<NetworkModel>(), key::is(NetworkOptions{}.model),
     "two_tier: the busiest link; max_min: flows that share links; fair_share: near max_min, faster."},
});

constexpr KeyTable kDispatchKeys({
    {"transport", key::one_of([] { return entry_names(kTransports); }),
     key::by("the engine's on this network; in a pool the scenario's"), "Library that exchanges tokens."},
    {"dedup", key::one_of<Dedup>(), key::by("the transport's own way"),
     "Whether a token with several experts on one GPU or node is sent there once."},
    {"dispatch_dtype", key::one_of<RowType>(),
     key::by("fp8 for fp8 models over DeepEP, nvfp4 for fp4 models with TensorRT-LLM, else bf16"),
     "Data type of tokens on their way to experts."},
    {"combine_dtype", key::one_of<RowType>(), key::by("bf16; in a pool the scenario's"),
     "Data type of tokens on their way back."},
    {"exchange_counts", key::flag(), key::by("true for nccl_p2p"), "Exchange token counts before each dispatch."},
    {"capacity_factor", key::number(Bound::kPositive), key::by("no limit; in a pool the scenario's"),
     "Rows of each expert from each rank over an even share: buffers are padded to it, and what is more is dropped."},
    {"least_capacity", key::whole(), key::by("0; in a pool the scenario's"), "Fewest such rows."},
    {"collaborators", key::whole(Bound::kPositive), key::by("any expert"),
     "C2R's T: a token's other choices are of the T experts that most often serve tokens with its first one; all "
     "others: any."},
    {"expert_kernels", key::one_of<KernelBackend>(), key::by("auto; in a pool the scenario's"),
     "Experts' GEMM: auto is DeepGEMM behind DeepEP, else the engine's kernel; trtllm: TensorRT-LLM's on Blackwell."},
    {"dense_kernels", key::one_of<KernelBackend>(), key::by("auto; in a pool the scenario's"),
     "fp8 GEMM outside experts: auto is the engine's kernel; trtllm: TensorRT-LLM's on Blackwell "
     "(SGLang flashinfer_trtllm)."},
    {"pxn", key::flag(), key::by("true for nccl_p2p on nodes with NVLink"),
     "NCCL relays over NVLink to the NIC of the receiver's index (NCCL_P2P_PXN_LEVEL 2); false: the sender's own NIC."},
});

// As `dispatch.transport` names it.
std::string_view transport_name(const DispatchOptions& dispatch) {
  return dispatch.decode_steps != nullptr
             ? std::ranges::find(kAutos, dispatch.network.transport, &AutoTransport::prompts)->name
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
  DispatchReader(const ConfigReader& in, std::optional<ScenarioDispatch> other,
                 const EngineDefault<std::string>& transport, const DispatchSite& site)
      : in_(in),
        other_(std::move(other)),
        transport_(transport),
        model_(site.model),
        node_(site.cluster.node),
        compute_(site.compute),
        fp4_rows_(site.fp4_rows) {}

  DispatchOptions read(const FabricOptions& fabric, NetworkModel model) {
    const auto name = other_or(kDispatchKeys["transport"], transport_.value, transport_.source);
    const AutoTransport* several = find_auto(name);
    if (several == nullptr) {
      const auto at = std::ranges::find(kTransports, name, &TransportEntry::name);
      const auto transport = static_cast<Transport>(at - std::begin(kTransports));
      DispatchOptions out = of(transport, name, fabric, model);
      if (transport == Transport::kAllGatherAllReduce) {
        out.uneven_steps = std::make_shared<const DispatchOptions>(of(Transport::kAllReduce, name, fabric, model));
      }
      return out;
    }
    DispatchOptions out = of(several->prompts, name, fabric, model);
    DispatchOptions decodes = of(several->decodes, name, fabric, model);
    decodes.dedup = decodes.dedup == Dedup::kEven ? Dedup::kPadded : decodes.dedup;  // SGLang's MAX_LEN
    out.decode_steps = std::make_shared<const DispatchOptions>(std::move(decodes));
    return out;
  }

 private:
  template <class T>
  T other_or(const Key& key, const T& fallback, const std::string& source) {
    const bool stated = other_ && other_->in.has(std::string(key.name));
    return in_.read<T>(key, stated ? other_->in.read<T>(key) : fallback, stated ? "the scenario's dispatch" : source);
  }
  double element_bytes(const Key& key, RowType usual, const std::string& source) {
    switch (other_or(key, usual, source)) {
      case RowType::kFp8:
        return 1.0 + kScaleBytes / kScaledBlock;
      case RowType::kNvfp4:
        return 0.5 + 1.0 / kFp4Block;
      case RowType::kBf16:
        break;
    }
    return 2.0;
  }
  // A key that transports have values of their own for: the other section's where it has the same transport.
  template <class T>
  std::optional<T> own(const Key& key, const std::string& transport) {
    const bool scenarios = !in_.has(std::string(key.name)) && other_ && other_->transport == transport;
    return scenarios ? other_->in.maybe<T>(key) : in_.maybe<T>(key);
  }

  Dedup dedup(Transport transport, const std::string& name) {
    const auto given = own<Dedup>(kDispatchKeys["dedup"], name);
    if (const std::optional<Dedup> all = to_all(transport)) {
      in_.check(!given, "dedup", name + " sends every token to every GPU: there is nothing to send once.");
      return *all;
    }
    const Dedup fixed = transport == Transport::kDeepEpNormal                                         ? Dedup::kNode
                        : transport == Transport::kNcclP2p || transport == Transport::kNvlinkOneSided ? Dedup::kGpu
                                                                                                      : Dedup::kNone;
    const bool several = find_auto(name) != nullptr;
    in_.check(!several || !given, "dedup", name + " has its own way; leave dedup out.");
    const Dedup chosen = several ? fixed : in_.read<Dedup>(kDispatchKeys["dedup"], given.value_or(fixed));
    in_.check(transport == Transport::kNcclP2p || chosen == fixed, "dedup",
              fmt::format("{} has its own way, which is '{}'; leave dedup out.", name, name_of(fixed)));
    return chosen;
  }

  static bool is_sum(Transport transport) {
    return collective_of(transport, Direction::kCombine) == CollectiveKind::kAllReduce;
  }

  bool pxn(Transport transport, const std::string& name) {
    const Key& key = kDispatchKeys["pxn"];
    const bool nccl = transport == Transport::kNcclP2p, usual = nccl && may_relay(node_);
    const bool pxn = in_.read<bool>(key, own<bool>(key, name).value_or(usual),
                                    usual ? "NCCL's default since 2.12 where NVLink joins the GPUs" : "");
    in_.check(!pxn || nccl, "pxn",
              "only nccl_p2p's messages are relayed by PXN; DeepEP and all-gathers have their own way.");
    in_.check(!pxn || may_relay(node_), "pxn",
              fmt::format("PXN relays over NVLink, which {} does not have: its GPUs are joined by PCIe.", node_.name));
    return pxn;
  }

  KernelBackend backend(const Key& key, OpKind kind) {
    const KernelBackend out = other_or(key, KernelBackend::kAuto, "");
    in_.check(out == KernelBackend::kAuto || compute_.has_backend(kind, name_of(out)), std::string(key.name),
              fmt::format("the kernels of {} have no {}.", compute_.name, name_of(out)));
    return out;
  }

  DispatchOptions of(Transport transport, const std::string& name, const FabricOptions& fabric, NetworkModel model) {
    DispatchOptions out;
    out.network = {model, transport, fabric, pxn(transport, name)};
    out.dedup = dedup(transport, name);
    const bool deep_ep = transport == Transport::kDeepEpNormal || transport == Transport::kDeepEpLowLatency;
    const bool fp8 = deep_ep && model_.weight_bytes(WeightsOf::kFfn) < 2;
    const bool fp4 =
        fp4_rows_ && !deep_ep && !is_sum(transport) && model_.weights_of(WeightsOf::kExperts) == WeightType::kFp4;
    out.dispatch_bytes = element_bytes(kDispatchKeys["dispatch_dtype"],
                                       fp8   ? RowType::kFp8
                                       : fp4 ? RowType::kNvfp4
                                             : RowType::kBf16,
                                       fp8   ? "DeepEP dispatches fp8 models in fp8 (README)"
                                       : fp4 ? "TensorRT-LLM quantises fp4 models' tokens first (fused_moe_cutlass.py, "
                                               "run_post_quant_allgather)"
                                             : "");
    out.combine_bytes = element_bytes(kDispatchKeys["combine_dtype"], RowType::kBf16, "");
    in_.check(!deep_ep || out.combine_bytes == 2.0, "combine_dtype", "DeepEP combines in bf16.");
    const bool sums = is_sum(transport);
    in_.check(!sums || out.dispatch_bytes == 2.0, "dispatch_dtype", name + " moves tokens in bf16, both ways.");
    in_.check(!sums || out.combine_bytes == 2.0, "combine_dtype", name + " moves tokens in bf16, both ways.");
    if (transport == Transport::kDeepEpLowLatency) {
      out.dispatch_bytes += kLowLatencyHeader / model_.hidden;
    }
    out.expert_kernels = backend(kDispatchKeys["expert_kernels"], OpKind::kGroupedGemm);
    in_.check(
        out.expert_kernels != KernelBackend::kDeepGemm || model_.weights_of(WeightsOf::kExperts) != WeightType::kInt4,
        "expert_kernels", "deepgemm has no kernels for int4 experts; the engine's own are `auto`.");
    out.dense_kernels = backend(kDispatchKeys["dense_kernels"], OpKind::kDenseGemm);
    // DeepEP hands experts their rows in a layout of its own, which other kernels take than all-gathered rows.
    if (deep_ep && out.expert_kernels == KernelBackend::kAuto) {
      out.expert_kernels = KernelBackend::kDeepGemm;
    }
    const Key& counts = kDispatchKeys["exchange_counts"];
    out.exchange_counts = in_.read<bool>(counts, own<bool>(counts, name).value_or(transport == Transport::kNcclP2p));
    in_.check(!out.exchange_counts || transport == Transport::kNcclP2p, "exchange_counts",
              "only nccl_p2p exchanges counts ahead; the other transports' times contain what they need.");
    const Key& least = kDispatchKeys["least_capacity"];
    out.capacity = {own<double>(kDispatchKeys["capacity_factor"], name).value_or(0.0),
                    in_.read<int>(least, own<int>(least, name).value_or(0))};
    in_.check(out.capacity.factor > 0 || out.capacity.least == 0, "least_capacity",
              "without capacity_factor no expert's rows are limited; leave least_capacity out.");
    in_.check(out.capacity.factor == 0 || (transport == Transport::kNcclP2p && out.dedup == Dedup::kNone),
              "capacity_factor", "buffers of one size hold a row a (token, expert): transport nccl_p2p, dedup none.");
    out.collaborators = collaborators(out.capacity);
    return out;
  }

  // 0 where all other experts are a token's to choose from.
  int collaborators(const ExpertCapacity& capacity) {
    in_.check(!other_ || !in_.has("collaborators"), "collaborators",
              "routing is the model's, the same in all pools; set it in the scenario's `dispatch`, or in a label's.");
    const int count = in_.maybe<int>(kDispatchKeys["collaborators"]).value_or(0);
    in_.check(capacity.factor == 0 || (count == 0 && !(other_ && other_->in.has("collaborators"))), "capacity_factor",
              "buffers of one size make exchanges and experts even, whatever tokens choose; leave capacity_factor or "
              "dispatch.collaborators out.");
    in_.check(count == 0 || count >= model_.top_k - 1, "collaborators",
              fmt::format("a token of {} chooses {} experts more than the first; allowed are {} and more.", model_.name,
                          model_.top_k - 1, std::max(1, model_.top_k - 1)));
    return count < model_.experts - 1 ? count : 0;
  }

  ConfigReader in_;
  std::optional<ScenarioDispatch> other_;
  const EngineDefault<std::string>& transport_;
  const MoeSpec& model_;
  const NodeSpec& node_;
  const ComputeProfile& compute_;
  bool fp4_rows_;
};

FabricOptions read_fabric(ConfigReader& cluster_section, const ClusterSpec& cluster) {
  ConfigReader in = cluster_section.section(kClusterKeys["fabric"]);
  FabricOptions out;
  out.kind = in.read<FabricKind>(kFabricKeys["kind"]);
  out.nodes_per_leaf = in.maybe<int>(kFabricKeys["nodes_per_leaf"]).value_or(out.nodes_per_leaf);
  in.check(out.kind != FabricKind::kLeafSpine || out.nodes_per_leaf > 0, "nodes_per_leaf",
           "a leaf_spine fabric needs the number of nodes on a leaf, from 1 on.");
  out.oversubscription = in.read<double>(kFabricKeys["oversubscription"]);
  out.nic_attach_rate = in.maybe<BytesPerSecond>(kFabricKeys["nic_attach_rate"]).value_or(out.nic_attach_rate);
  out.host_bridges = in.read<int>(kFabricKeys["host_bridges"]);
  out.bridge_rate = in.maybe<BytesPerSecond>(kFabricKeys["bridge_rate"]).value_or(out.bridge_rate);
  out.missing_links = in.maybe<std::vector<std::string>>(kFabricKeys["missing_links"]).value_or(out.missing_links);
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

void read_gpus_per_node(ConfigReader& in, const Key& key, ClusterSpec& cluster) {
  NodeSpec& node = cluster.node;
  const auto gpus = in.maybe<int>(key);
  if (!gpus) {
    return;
  }
  in.check(*gpus <= node.gpus, "gpus_per_node", fmt::format("{} has {} GPUs, not {}.", node.name, node.gpus, *gpus));
  const double nics = static_cast<double>(node.nics) * *gpus / node.gpus;
  in.check(nics < 1 || node.nics * *gpus % node.gpus == 0, "gpus_per_node",
           fmt::format("{} NICs for {} GPUs do not divide: {} GPUs would have {:.2f} of them.", node.nics, node.gpus,
                       *gpus, nics));
  if (nics > 0 && nics < 1) {  // others have the rest of its rate
    node.nic_rate = node.nic_rate * nics;
    node.nics = 1;
  } else {
    node.nics = static_cast<int>(nics);
  }
  node.gpus = *gpus;
}

ClusterSection read_cluster_section(ConfigReader& root) {
  ConfigReader in = root.section(kRootKeys["cluster"]);
  const std::string node = name_or_path(in, kClusterKeys["node"]);
  const int nodes = in.read<int>(kClusterKeys["nodes"]);
  NodeEntry entry = at_key(in, "node", [&] { return find_node(node); });
  check_limit(limits::kGpus, product_of({nodes, entry.spec.gpus}), in.place("nodes"));
  ClusterSection out{{entry.spec, nodes}, {}, std::move(entry.compute), std::move(entry.network)};
  read_gpus_per_node(in, kClusterKeys["gpus_per_node"], out.cluster);
  const NodeSpec& kind = out.cluster.node;  // right by itself: how many there are is the scenario's
  in.check(nodes == 1 || (kind.nics > 0 && kind.nic_rate.count() > 0), "nodes",
           fmt::format("{} nodes need NICs with a positive rate, and a {} has none.", nodes, kind.name));
  out.cluster.validate();
  out.fabric = read_fabric(in, out.cluster);
  return out;
}

TopologyPlan read_topology(const Config& config) {
  ConfigReader root = config.root();
  const ClusterSection section = read_cluster_section(root);
  ConfigReader in = root.section(kRootKeys["cluster"]);
  const ConfigReader fabric = in.section(kClusterKeys["fabric"]);
  in.finish();
  try {
    return plan_topology(section.cluster, section.fabric);
  } catch (const InputError& e) {
    fail_fabric(fabric, e);
  }
}

std::span<const TransportEntry> transport_entries() { return kTransports; }

std::vector<SectionKeys> network_keys() {
  return {{"cluster", "", kClusterKeys},
          {"cluster.fabric", "", kFabricKeys},
          {"network", "", kNetworkKeys},
          {"dispatch", "", kDispatchKeys}};
}

namespace {

DispatchOptions checked(DispatchOptions out, ConfigReader& root, ConfigReader& in, const DispatchSite& site) {
  ConfigReader network = root.section(kRootKeys["network"]);
  ConfigReader cluster_section = root.section(kRootKeys["cluster"]);
  ConfigReader fabric = cluster_section.section(kClusterKeys["fabric"]);
  network.check(out.network.model != NetworkModel::kFairShare || out.fair_share_prices(), "model",
                "fair_share prices rows that are sent once per GPU or per expert (dispatch.dedup gpu or none); "
                "two_tier and max_min price the others.");
  for (const DispatchOptions* way = &out; way != nullptr; way = way->other()) {
    try_network(site.cluster, site.network, way->network, network, in, fabric);
  }
  return out;
}

}  // namespace

DispatchOptions read_dispatch(ConfigReader& root, const DispatchSite& site, const FabricOptions& fabric,
                              const EngineDefault<std::string>& transport) {
  ConfigReader network = root.section(kRootKeys["network"]), in = root.section(kRootKeys["dispatch"]);
  const auto model = network.read<NetworkModel>(kNetworkKeys["model"]);
  return checked(DispatchReader(in, std::nullopt, transport, site).read(fabric, model), root, in, site);
}

DispatchOptions read_pool_dispatch(ConfigReader& root, ConfigReader in, const DispatchSite& site,
                                   const DispatchOptions& scenario, const EngineDefault<std::string>& transport) {
  ConfigReader network = root.section(kRootKeys["network"]);
  const auto model = network.read<NetworkModel>(kNetworkKeys["model"]);
  const ScenarioDispatch other{root.section(kRootKeys["dispatch"]), transport_name(scenario)};
  return checked(DispatchReader(in, other, transport, site).read(scenario.network.fabric, model), root, in, site);
}

}  // namespace epsim
