// What a run asks of the network between its GPUs: the time of one layer's exchange, of small collectives inside a
// node, and what every link carried.
//
//   Models : an exchange as data-sheet time of the busiest link (or of the last flow), turned into real time by the
//            measured curve of the transport on that tier of links (LinkProfile).
//   Source : models/hardware/links.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/catalogue/hardware_profile.h"
#include "models/network/fabric.h"
#include "models/network/pxn.h"
#include "models/network/traffic_matrix.h"
#include "sim/domain/cluster_spec.h"
#include "sim/domain/step.h"

namespace epsim {

// How the wire time of an exchange is found.
enum class NetworkModel {
  kTwoTier,   // the busiest link's bytes over its rate: a closed form, and the least that an exchange can take
  kMaxMin,    // flows that share links max-min fairly: at least as long; a millisecond an exchange of 64 GPUs
  kFairShare  // the busiest link, or what a hot receiver waits while senders share NICs out: near max_min, in
              // microseconds
};
inline constexpr std::array<std::string_view, 3> kNetworkModelNames = {"two_tier", "max_min", "fair_share"};

// Who moves the tokens, which sets what is sent once and which measured curve prices it.
enum class Transport {
  kNcclP2p,                 // grouped ncclSend / ncclRecv: an all-to-allv, rows as `dedup` says
  kAllGatherReduceScatter,  // every token to every GPU, and the outputs added up on the way back
  kDeepEpNormal,            // DeepEP's high-throughput kernels: one row a node, fanned out inside over NVLink
  kDeepEpLowLatency,        // DeepEP's low-latency kernels: one row a (token, expert), no notification ahead
  kAllReduce,               // every token into a buffer of zeros, which is added up over all GPUs, both ways
  kAllGatherAllReduce,      // every token to every GPU, and an all-reduce on the way back
  kBroadcastAllReduce,      // the same by one broadcast a DP rank
  kNvlinkOneSided           // TensorRT-LLM's kernels over NVLink: one row a GPU, written into its memory
};
inline constexpr std::array<std::string_view, 8> kTransportNames = {
    "nccl_p2p",  "allgather_reducescatter", "deepep_normal",       "deepep_low_latency",
    "allreduce", "allgather_allreduce",     "broadcast_allreduce", "nvlink_one_sided"};
// The measured kind of collective that a transport's dispatch or combine is.
CollectiveKind collective_of(Transport transport, Direction direction);
// How often each row passes its links: an all-reduce adds rows up and then hands the sums out.
constexpr int passes(CollectiveKind kind) { return is_all_reduce(kind) ? 2 : 1; }

struct NetworkOptions {
  NetworkModel model = NetworkModel::kTwoTier;
  Transport transport = Transport::kNcclP2p;
  FabricOptions fabric = {};
  bool pxn = false;  // NCCL relays what goes to other nodes (Pxn); without effect where it cannot: see may_relay()
};
// Whether NCCL can relay in these nodes: over NVLink.
inline bool may_relay(const NodeSpec& node) { return node.intra == IntraLink::kNvSwitch; }

// An exchange's price, its lower bound, and what the GPUs wait on average for its busiest link: price x (1 - mean / busiest
// of the bytes of its kind of port, NIC or fabric link, of each the busier direction).
struct ExchangePrice {
  Price price;
  Seconds wire{};  // at the data sheet's rates: the busiest link's bytes / rate, or until the last flow ends
  Seconds straggler{};
  int bottleneck = -1;  // the busiest link of the tier that sets the price, in links(); -1 when nothing moved
};

class Network {
 public:
  struct Link {
    std::string name;
    BytesPerSecond rate{};
    LinkEnd end = LinkEnd::kBetween;
  };

  virtual ~Network() = default;

  // One layer's exchange. Adds what each link carried to `link_bytes`, in the order of links().
  virtual ExchangePrice all_to_all(const TrafficMatrix& traffic, Bytes row, Direction direction,
                                   std::vector<double>& link_bytes) const = 0;
  // A layer's dispatch and, with the same rows the other way, its combine; as two all_to_all() calls.
  struct LayerExchange {
    ExchangePrice dispatch, combine;
  };
  virtual LayerExchange dispatch_and_combine(const TrafficMatrix& traffic, Bytes dispatch_row, Bytes combine_row,
                                             std::vector<double>& link_bytes) const;
  const std::vector<Link>& links() const { return links_; }
  // The traffic of that direction that takes links at full rate as long as this one takes links at these shares of it.
  TrafficMatrix slowed(const TrafficMatrix& traffic, Direction direction, std::span<const double> link_speed,
                       std::span<const double> nic_speed) const;

  // [GPU] What its own bytes of an exchange take on their way into it, and out: of what it shares with others, such as
  // a NIC, all that goes through counts. Nothing to carry takes no time.
  struct PortPrices {
    std::vector<Price> in, out;
  };
  void port_prices(const TrafficMatrix& traffic, Bytes row, Direction direction, PortPrices& out) const;
  // The same for dispatch at data-sheet rates, and what each link carries of it.
  struct PortWires {
    std::vector<Seconds> in, out;
  };
  PortWires port_wires(const TrafficMatrix& traffic, Bytes row) const;
  virtual void count(const TrafficMatrix& traffic, Bytes row, std::vector<double>& link_bytes) const = 0;
  // A collective over all GPUs of the cluster, on a buffer of `bytes` as in within_node(): the slower of what a GPU's
  // port carries inside the node and what the NICs of a node carry between nodes. Nodes send every byte to a node once,
  // an all-reduce twice.
  Price over_all(CollectiveKind kind, Bytes bytes) const;
  // Base latency of a collective over all GPUs that carries next to nothing (the exchange of counts).
  Price latency() const;
  // A collective over the `gpus` of one tensor-parallel group inside a node, on a buffer of `bytes`.
  Price within_node(CollectiveKind kind, int gpus, Bytes bytes) const;

 protected:
  Network(const ClusterSpec& cluster, NetworkProfile profile, const NetworkOptions& options);

  // The slower of the two tiers, given how long each is busy at data-sheet rates.
  struct Tiers {
    Seconds inside, between;
  };
  struct TierPrice {
    Price price;
    bool between = false;
  };
  // [GPU] How long its own bytes keep what they pass busy.
  struct PortTiers {
    std::vector<Tiers> in, out;
  };
  virtual PortTiers port_tiers(const TrafficMatrix& traffic, Bytes row, Direction direction) const = 0;
  // What an all-gather of `bytes` over all GPUs takes at least, where more than ports and NICs may be busy.
  virtual Tiers gather_floor(Bytes) const { return {}; }
  TierPrice slower_tier(const Tiers& wire, Direction direction) const;
  static constexpr int kMostCustomAllReduce = 8;  // GPUs
  // What does the part of a collective that stays inside a node: where that is all of it, the engine's own all-reduce
  // (SGLang's and vLLM's distributed/device_communicators/custom_all_reduce.py), but for vLLM's over DP ranks, whose
  // group has none (distributed/parallel_state.py).
  CollectiveKind inside(CollectiveKind kind) const {
    const bool own = cluster_.nodes == 1 && cluster_.node.gpus <= kMostCustomAllReduce &&
                     transport_ != Transport::kBroadcastAllReduce;
    return own && kind == CollectiveKind::kAllReduce ? CollectiveKind::kCustomAllReduce : kind;
  }

  ClusterSpec cluster_;
  NetworkProfile profile_;
  Transport transport_;
  NicGroups groups_;        // of a node
  std::optional<Pxn> pxn_;  // where messages to other nodes are relayed
  std::vector<Link> links_;
};

}  // namespace epsim
