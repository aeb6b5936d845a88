// What each transport sends for uniform routing, and what that takes on the hardware it was measured on.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/catalogue/catalogue.h"
#include "models/network/make_network.h"
#include "models/network/traffic.h"
#include "sim/core/rng.h"

using namespace epsim;

namespace {

constexpr int kExperts = 256, kTopK = 8;
const Bytes kFp8Row(7168 * (1 + 4.0 / 128)), kFp8LowLatencyRow(7168 * (1 + 4.0 / 128) + 16), kBf16Row(7168 * 2);

// DeepSeek-V3's experts in order over the GPUs of some nodes; every GPU is a DP rank of its own.
struct TransportSetup {
  ClusterSpec cluster;
  NetworkProfile profile;
  Parallelism parallelism;
  Placement placement;

  TransportSetup(const char* node, int nodes) : TransportSetup(find_node(node), nodes) {}
  TransportSetup(const NodeEntry& entry, int nodes)
      : cluster{entry.spec, nodes},
        profile(entry.network),
        parallelism{.gpus = cluster.gpus(), .attention_tp = 1},
        placement(place(cluster)) {}

  static Placement place(const ClusterSpec& cluster) {
    std::vector<int> slots(kExperts);
    std::iota(slots.begin(), slots.end(), 0);
    const PlacementPlan plan{.policy = "test",
                             .experts = kExperts,
                             .gpus = cluster.gpus(),
                             .layers = {uniform_layer(slots, cluster.gpus())}};
    return Placement::build(plan, shape_of(cluster), Bytes(1), Bytes(1e6));
  }

  TrafficMatrix traffic(Dedup dedup, std::int64_t tokens) const {
    StepLoads loads;
    loads.resize(1, 1, kExperts);
    std::fill(loads.per_token.begin(), loads.per_token.end(), static_cast<float>(kTopK) / kExperts);
    TrafficMatrix out;
    TrafficModel(placement, parallelism, shape_of(cluster), dedup)
        .layer(0, loads, std::vector<std::int64_t>(static_cast<std::size_t>(cluster.gpus()), tokens), out);
    return out;
  }

  Price price(Transport transport, Dedup dedup, std::int64_t tokens, Bytes row, Direction direction) const {
    const std::unique_ptr<Network> network = make_network(cluster, profile, {.transport = transport});
    std::vector<double> carried(network->links().size());
    return network->all_to_all(traffic(dedup, tokens), row, direction, carried).price;
  }
};

double off_by(double value, double reference) { return std::abs(value / reference - 1.0); }

}  // namespace

TEST_CASE("rows that a GPU sends per token of its own") {
  struct Row {
    const char* name;
    int nodes;
    Dedup dedup;
    double inter;  // over its NIC
  };
  // One a remote node: (n - 1) (1 - C(256 - 256 / n, 8) / C(256, 8)); one a (token, expert): 8 (n - 1) / n; everything
  // to every node: n - 1.
  for (const Row& r : {Row{"normal EP16", 2, Dedup::kNode, 0.9965}, Row{"normal EP32", 4, Dedup::kNode, 2.7107},
                       Row{"low latency EP16", 2, Dedup::kNone, 4.0}, Row{"low latency EP32", 4, Dedup::kNone, 6.0},
                       Row{"low latency EP64", 8, Dedup::kNone, 7.0}, Row{"AG + RS", 4, Dedup::kEven, 3.0}}) {
    CAPTURE(r.name);
    const TrafficMatrix traffic = TransportSetup("DGX-H100", r.nodes).traffic(r.dedup, 100);
    CHECK(off_by(traffic.inter_out[0] / 100, r.inter) <= 0.01);
    CHECK(off_by(traffic.inter_in[5] / 100, r.inter) <= 0.01);
  }
  const TransportSetup one("DGX-H100", 1);
  CHECK(off_by(one.traffic(Dedup::kGpu, 100).intra_out[0] / 100, 4.6328) <= 0.02);
  CHECK(off_by(one.traffic(Dedup::kNode, 100).intra_out[0] / 100, 4.6328) <= 0.02);
  CHECK(off_by(one.traffic(Dedup::kNone, 100).intra_out[0] / 100, 7.0) <= 1e-6);
  // An all-gather of 8 x 100 tokens: everybody receives the 700 of the others.
  CHECK(off_by(one.traffic(Dedup::kEven, 100).intra_in[0], 700) <= 1e-9);
}

TEST_CASE("an all-gather inside a node takes what NCCL measured for the same buffer") {
  const TransportSetup one("DGX-H100", 1);
  // 8 x 1170 rows of 14336 B = 128 MiB, measured at 388.6 us; the reduce-scatter back at 381.2.
  const std::int64_t tokens = 1170;
  const double buffer = 8.0 * static_cast<double>(tokens) * kBf16Row.count();
  CHECK(off_by(buffer, 128 * kMiB) <= 0.001);
  const Price out = one.price(Transport::kAllGatherReduceScatter, Dedup::kEven, tokens, kBf16Row, Direction::kDispatch);
  const Price back = one.price(Transport::kAllGatherReduceScatter, Dedup::kEven, tokens, kBf16Row, Direction::kCombine);
  CHECK(off_by(to_us(out.time), 388.6) <= 0.005);
  CHECK(off_by(to_us(back.time), 381.2) <= 0.005);
}

TEST_CASE("DeepEP on H100 nodes: counted rows and fitted curves meet the measured times") {
  struct Row {
    int nodes;
    std::int64_t tokens;
    bool low_latency;
    double dispatch_us, combine_us;  // aiconfigurator h100_sxm/comm/sglang/0.5.6.post2, transmission and notification
  };
  for (const Row& r :
       {Row{1, 4096, false, 491.24, 972.51}, Row{2, 4096, false, 748.87 + 56.1, 1777 + 50.07},
        Row{4, 4096, false, 1791 + 61.77, 3522 + 119.13}, Row{1, 128, true, 39.83, 72.38},
        Row{2, 128, true, 102.1, 186.17}, Row{4, 128, true, 142.97, 263.27}, Row{8, 128, true, 166.77, 304.73}}) {
    CAPTURE(r.nodes);
    CAPTURE(r.low_latency);
    const TransportSetup setup("DGX-H100", r.nodes);
    const Transport transport = r.low_latency ? Transport::kDeepEpLowLatency : Transport::kDeepEpNormal;
    const Dedup dedup = r.low_latency ? Dedup::kNone : Dedup::kNode;
    const Price out =
        setup.price(transport, dedup, r.tokens, r.low_latency ? kFp8LowLatencyRow : kFp8Row, Direction::kDispatch);
    const Price back = setup.price(transport, dedup, r.tokens, kBf16Row, Direction::kCombine);
    CHECK(off_by(to_us(out.time), r.dispatch_us) <= 0.15);
    CHECK(off_by(to_us(back.time), r.combine_us) <= 0.15);
    CHECK(out.origin != Origin::kExtrapolated);
  }
}

// Sizes that the curves leave out. Measured with a row to min(8, GPUs) GPUs, the sender's own among them as often as another; so many
// more of the tokens that choose by chance make as many rows.
TEST_CASE("TensorRT-LLM's all-to-all on a rack meets measured times that its curves leave out") {
  struct Row {
    int gpus;
    std::int64_t tokens;
    double dispatch_us, combine_us;  // aiconfigurator gb200/comm/trtllm/1.3.0rc10, NVLinkOneSided
  };
  const Bytes nvfp4(7168 * (0.5 + 1.0 / 16));
  for (const Row& r : {Row{4, 1536, 43.64, 116.47}, Row{4, 6144, 128.31, 409.42}, Row{16, 192, 26.33, 51.35},
                       Row{16, 6144, 306.88, 1033.1}, Row{32, 1536, 98.22, 311.48}, Row{32, 6144, 327.21, 1082.15}}) {
    CAPTURE(r.gpus);
    CAPTURE(r.tokens);
    NodeEntry rack = find_node("GB200-NVL72");
    rack.spec.gpus = r.gpus;
    const TransportSetup setup(rack, 1);
    const double measured_rows = std::min(8, r.gpus) * (1 - 1.0 / r.gpus);
    const double rows = setup.traffic(Dedup::kGpu, 1000).intra_out[0] / 1000;
    const auto tokens = static_cast<std::int64_t>(static_cast<double>(r.tokens) * measured_rows / rows);
    const Price out = setup.price(Transport::kNvlinkOneSided, Dedup::kGpu, tokens, nvfp4, Direction::kDispatch);
    const Price back = setup.price(Transport::kNvlinkOneSided, Dedup::kGpu, tokens, kBf16Row, Direction::kCombine);
    CHECK(off_by(to_us(out.time), r.dispatch_us) <= 0.06);
    CHECK(off_by(to_us(back.time), r.combine_us) <= 0.06);
    CHECK(out.origin != Origin::kExtrapolated);
  }
}

// DeepEP's own figures (README at 567632d) are of H800 nodes: NVLink cut to 200 GB/s, the same NICs, other versions of
// the kernels. Nothing here was fitted to them. Its normal EP16 figure (43 GB/s) is left out: it is slower than its
// EP32 one (58), and H100 nodes were measured at 75.
TEST_CASE("DeepEP on H800 nodes, not fitted: within 15 %, but for low-latency combine inside a node") {
  struct Row {
    int nodes;
    bool low_latency;
    double dispatch_us, combine_us, combine_band;
  };
  // Normal: 4096 tokens; its GB/s count a row for every node that a token needs, its own included, 8 experts in 4 nodes
  // (4 (1 - C(192, 8) / C(256, 8)) = 3.61), or for every GPU in a single node (8 x 0.6618 = 5.29).
  // Combine inside a node: 155 us predicted, 114 measured; scaling H100's curve to an NVLink of 200 GB/s is too slow
  // there.
  const double ep8 = 4096 * 5.29 / 1e3, ep32 = 4096 * 3.61 / 1e3;
  for (const Row& r : {Row{1, true, 77, 114, 0.40}, Row{2, true, 118, 195, 0.15}, Row{4, true, 155, 273, 0.15},
                       Row{8, true, 173, 314, 0.15}, Row{1, false, ep8 * 7392 / 153, ep8 * 14336 / 158, 0.15},
                       Row{4, false, ep32 * 7392 / 58, ep32 * 14336 / 57, 0.15}}) {
    CAPTURE(r.nodes);
    CAPTURE(r.low_latency);
    const TransportSetup setup("HGX-H800", r.nodes);
    const Transport transport = r.low_latency ? Transport::kDeepEpLowLatency : Transport::kDeepEpNormal;
    const Dedup dedup = r.low_latency ? Dedup::kNone : Dedup::kNode;
    const std::int64_t tokens = r.low_latency ? 128 : 4096;
    const Price out =
        setup.price(transport, dedup, tokens, r.low_latency ? kFp8LowLatencyRow : kFp8Row, Direction::kDispatch);
    const Price back = setup.price(transport, dedup, tokens, kBf16Row, Direction::kCombine);
    CHECK(off_by(to_us(out.time), r.dispatch_us) <= 0.15);
    CHECK(off_by(to_us(back.time), r.combine_us) <= r.combine_band);
    CHECK(out.origin == Origin::kExtrapolated);  // another GPU than was measured
  }
}
