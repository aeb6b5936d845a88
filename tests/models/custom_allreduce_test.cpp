// The engines' own all-reduce inside a node, and what a layer of one DP rank does with it: two sums.
#include <doctest/doctest.h>

#include <array>

#include "models/catalogue/catalogue.h"
#include "tests/models/small_step.h"

using namespace epsim;

namespace {

// aiconfigurator 095f58a, systems/data/*/comm/*/*/custom_allreduce_perf, in CUDA graphs: us by bf16 elements.
constexpr std::array kElements = {16384.0, 32768.0, 65536.0, 131072.0, 262144.0, 524288.0, 4194304.0, 8388608.0};
struct EngineTable {
  const char *link, *engine;
  int gpus;
  double link_gbps;
  std::array<double, kElements.size()> us;
};
constexpr EngineTable kEngineTables[] = {
    {"nvlink4-h200", "sglang", 8, 450, {5.754, 6.507, 7.953, 14.176, 14.973, 16.684, 60.59, 120.99}},  // 0.5.10
    {"nvlink4-h200", "vllm", 8, 450, {5.67, 6.56, 7.94, 10.06, 11.14, 14.07, 48.39, 87.17}},           // 0.24.0
    {"nvlink4-h200", "trtllm", 8, 450, {3.9, 4.58, 6.39, 10.11, 17.78, 25.74, 76.69, 121.39}},         // 1.3.0rc20
    {"nvlink4-h100", "trtllm_1_2", 8, 450, {3.84, 4.59, 6.2, 10.17, 17.6, 25.96, 79.43, 122.32}},      // 1.3.0rc20
    {"nvlink5-b300", "trtllm", 8, 900, {5.82, 5.84, 6.29, 7.62, 10.73, 17.41, 55.52, 83.15}},          // 1.3.0rc20
    {"nvlink5-b200", "trtllm", 8, 900, {6.09, 5.99, 6.34, 7.93, 10.94, 17.78, 55.36, 84.76}},          // 1.3.0rc20
    {"nvlink5-b200", "vllm", 8, 900, {8.22, 8.64, 9.36, 25.8, 26.15, 17.17, 39.24, 63.21}},            // 0.24.0
    {"nvlink5-gb200", "trtllm", 4, 900, {5.01, 4.99, 5.13, 5.69, 7.01, 9.47, 49.44, 74.79}},           // 1.3.0rc20
};

double by_table(const EngineTable& table, double elements) {
  std::size_t right = 1;
  while (kElements[right] < elements) {
    ++right;
  }
  const std::size_t left = right - 1;
  return table.us[left] +
         (table.us[right] - table.us[left]) * (elements - kElements[left]) / (kElements[right] - kElements[left]);
}

constexpr double kCustomShare = 0.8;  // of the link's rate; NCCL's all-reduce has 0.5

// One node of two GPUs, which are one DP rank.
struct OneRank : test::SmallStep {
  DispatchOptions dispatch{.dedup = Dedup::kEven, .exchange_counts = false};
  OneRank() {
    cluster.nodes = 1;
    parallelism = {.gpus = 2, .attention_tp = 2};
    plan.gpus = 2;
    plan.layers = {uniform_layer({0, 1, 2, 3}, 2), uniform_layer({0, 1, 2, 3}, 2)};
    dispatch.network.transport = Transport::kAllReduce;
  }
  StepCost cost(int ranks = 1) const {
    const Placement placed = placement();
    const test::FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
    LinkProfile link = test::plain_link(0.0, 0.5, 2);
    CollectiveCurve own = link.curves.back();
    own.kind = CollectiveKind::kCustomAllReduce;
    own.points[1].time = own.points[1].wire / kCustomShare;
    link.curves.push_back(own);
    StepModel steps(model, cluster, parallelism, dispatch, placed, loads, test::plain_compute(),
                    {link, test::plain_link(0.0, 0.8, 2)});
    const RankBatch batch{.prefill_tokens = 50000 / ranks, .prefill_pairs = 1e9, .sampled = 3};
    return steps.price(0, std::vector<RankBatch>(static_cast<std::size_t>(ranks), batch));
  }
};

double part_of(const StepCost& cost, LayerPart part) { return cost.by_part[static_cast<std::size_t>(part)].count(); }

// 50,000 rows of 2000 B; each GPU sends half of them twice over its port of 100 GB/s.
constexpr double kSum = 2 * 0.5 * 0.1 / 100 / kCustomShare;

}  // namespace

TEST_CASE("two sums a layer of DeepSeek-R1 inside a node are within 10 % of each engine's table, in us") {
  for (const EngineTable& table : kEngineTables) {
    CAPTURE(table.link);
    CAPTURE(table.engine);
    LinkProfile link = link_profile(table.link, "");
    link.use_kernels_of(table.engine);
    for (const int tokens : {4, 16, 64, 1024}) {
      CAPTURE(tokens);
      const double elements = tokens * 7168.0;
      const double share = 2.0 * (table.gpus - 1) / table.gpus;
      const Seconds wire = Bytes(elements * 2 * share) / BytesPerSecond(table.link_gbps * 1e9);
      const Price price = link.time(CollectiveKind::kCustomAllReduce, table.gpus, wire);
      CHECK(2 * price.time.count() * 1e6 == doctest::Approx(2 * by_table(table, elements)).epsilon(0.1));
      CHECK(price.origin == Origin::kInterpolated);
    }
  }
}

TEST_CASE("an engine that no curve names has the first one's, and curves without engines stay") {
  const auto named = [](std::vector<std::string> engines, int gpus) {
    CollectiveCurve curve = test::plain_link(0.0, 0.5, gpus).curves.front();
    curve.engines = std::move(engines);
    return curve;
  };
  const auto left = [&](const char* engine) {
    LinkProfile link;
    link.curves = {named({}, 2), named({"a", "b"}, 3), named({"c"}, 4)};
    link.use_kernels_of(engine);
    std::vector<int> gpus;
    for (const CollectiveCurve& curve : link.curves) {
      gpus.push_back(curve.gpus);
    }
    return gpus;
  };
  CHECK(left("b") == std::vector{2, 3});
  CHECK(left("c") == std::vector{2, 4});
  CHECK(left("another") == std::vector{2, 3});
}

TEST_CASE("links without the engines' own all-reduce have NCCL's") {
  const LinkProfile link = test::plain_link(0.0, 0.5, 2);
  CHECK(link.time(CollectiveKind::kCustomAllReduce, 2, Seconds(1)).time.count() == doctest::Approx(2));
}

// SGLang v0.4.10 and vLLM v0.10, models/deepseek_v2.py: attention's parts are summed, and shared and routed experts together.
TEST_CASE("one DP rank sums twice a layer: after attention, and after experts and shared experts together") {
  const OneRank plain;
  const StepCost cost = plain.cost();
  CHECK(part_of(cost, LayerPart::kDispatch) == doctest::Approx(2 * kSum));  // two MoE layers
  CHECK(part_of(cost, LayerPart::kCombine) == doctest::Approx(2 * kSum));
  // The dense layer's two, about its products: 50,000 rows of 2000 columns, 12 ms, and 600 MB of activations, 0.75 ms.
  CHECK(part_of(cost, LayerPart::kDense) == doctest::Approx(12e-3 + 0.75e-3 + 2 * kSum));
  // Shared experts cost their products alone: 250 columns of each GPU, 6 x 1000 x 250 x 50,000 flops = 1.5 ms, and 75 MB.
  OneRank shared;
  shared.model.shared_intermediate = 500;
  CHECK((shared.cost().total - cost.total).count() == doctest::Approx(2 * (1.5e-3 + 0.09375e-3)));
}

// vLLM's custom all-reduce belongs to the group of tensor parallelism (distributed/parallel_state.py): not over DP ranks.
TEST_CASE("vLLM's all-reduce over DP ranks is NCCL's") {
  const auto combine_of = [](Transport transport, Dedup dedup) {
    OneRank two;
    two.parallelism.attention_tp = 1;
    two.dispatch.network.transport = transport;
    two.dispatch.dedup = dedup;
    return part_of(two.cost(2), LayerPart::kCombine);
  };
  CHECK(combine_of(Transport::kAllReduce, Dedup::kEven) == doctest::Approx(2 * kSum));
  CHECK(combine_of(Transport::kBroadcastAllReduce, Dedup::kByTpRank) == doctest::Approx(2 * kSum * kCustomShare / 0.5));
}

// SGLang v0.5.9, models/deepseek_v2.py: the MLP, router included, works on what the collective ahead of it has put together.
TEST_CASE("each GPU scores all tokens that were added up over all GPUs, else its part of the rank's") {
  const auto gate_of = [](Transport transport, Dedup dedup, int ranks) {
    OneRank one;
    one.parallelism.attention_tp = 2 / ranks;
    one.dispatch.network.transport = transport;
    one.dispatch.dedup = dedup;
    return part_of(one.cost(ranks), LayerPart::kGate);
  };
  const double part = gate_of(Transport::kAllGatherReduceScatter, Dedup::kEven, 1);  // 25,000 of 50,000 tokens
  CHECK(part > 0);
  CHECK(gate_of(Transport::kAllReduce, Dedup::kEven, 1) == doctest::Approx(2 * part));
  // Two ranks of one GPU and 25,000 tokens each: by a broadcast their own, by an all-reduce those of both.
  CHECK(gate_of(Transport::kBroadcastAllReduce, Dedup::kByTpRank, 2) == doctest::Approx(part));
  CHECK(gate_of(Transport::kAllReduce, Dedup::kEven, 2) == doctest::Approx(2 * part));
}
