// Experts over EP ranks of several GPUs: what each GPU holds and computes, and what travels, worked out by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/catalogue/profiles.h"
#include "models/compute/fitted_compute.h"
#include "models/memory/memory_model.h"
#include "models/profile/expert_price.h"
#include "tests/models/small_step.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

// 100,000 tokens of the first of two DP ranks, which choose expert 0 always, 1 every other time, 2 and 3 each once in
// four; four GPUs on two nodes in `ranks` EP ranks.
struct Priced {
  StepCost cost;
  StepTotals totals;
};
Priced price(int ranks, Dedup dedup, Transport transport) {
  test::SmallStep b;
  b.parallelism.moe_tp = 4 / ranks;
  const PlacementPlan plan{.policy = "hand",
                           .experts = 4,
                           .gpus = ranks,
                           .layers = {uniform_layer({0, 1, 2, 3}, ranks), uniform_layer({0, 1, 2, 3}, ranks)}};
  const Placement placement = Placement::build(plan, shape_of(b.cluster), Bytes(0), Bytes(0), {}, b.parallelism.moe_tp);
  const test::FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  DispatchOptions dispatch{.dedup = dedup, .exchange_counts = false};
  dispatch.network.transport = transport;
  StepModel model(b.model, b.cluster, b.parallelism, dispatch, placement, loads, test::plain_compute(),
                  {test::plain_link(0.0, 0.5, 2), test::plain_link(0.0, 0.8, 4)});
  const std::vector<RankBatch> batches{{.prefill_tokens = 100000, .prefill_pairs = 1e9, .sampled = 3}, {}};
  const StepCost cost = model.price(0, batches);
  return {cost, model.totals()};
}

double of(const Priced& priced, LayerPart part) { return priced.cost.by_part[static_cast<std::size_t>(part)].count(); }

}  // namespace

TEST_CASE("ep_size 1 is tensor parallelism: every GPU a quarter of every expert, all rows, balanced whatever is hot") {
  const Priced p = price(1, Dedup::kEven, Transport::kAllGatherReduceScatter);
  // 200,000 rows x 6 x 1000 x 125 flops = 1.5e11 at 50 TF/s = 3 ms, in each of two layers.
  CHECK(of(p, LayerPart::kExperts) == doctest::Approx(2 * 3e-3).epsilon(1e-6));
  // Rings over all GPUs: each NIC sends half of the 100,000 tokens, 100 MB at 10 GB/s = 10 ms / 0.8. The sums of the
  // outputs come back over the same links.
  CHECK(of(p, LayerPart::kDispatch) == doctest::Approx(2 * 0.01 / 0.8).epsilon(1e-6));
  CHECK(of(p, LayerPart::kCombine) == doctest::Approx(2 * 0.01 / 0.8).epsilon(1e-6));
  for (const double rows : p.totals.gpu_load) {
    CHECK(rows == doctest::Approx(2e5));  // each GPU its columns of every row
  }
  // One link sets the time of each of them, in both layers.
  for (const std::size_t layer : {0U, 1U}) {
    for (const Direction direction : {Direction::kDispatch, Direction::kCombine}) {
      const std::span<const double> seconds = p.totals.bottlenecks(layer, direction);
      CHECK(std::accumulate(seconds.begin(), seconds.end(), 0.0) == doctest::Approx(0.01 / 0.8).epsilon(1e-6));
    }
  }
  CHECK(p.totals.balancedness.mean(0, 0) == 1.0);
  CHECK(p.totals.assignments_routed == doctest::Approx(2 * 2e5));
}

TEST_CASE("ep_size 2: the busier EP rank sets the time, and its GPUs are alike") {
  const Priced p = price(2, Dedup::kEven, Transport::kAllGatherReduceScatter);
  // Experts 0 and 1 on GPUs 0 and 1: 150,000 rows x 6 x 1000 x 250 flops = 2.25e11 at 50 TF/s = 4.5 ms.
  CHECK(of(p, LayerPart::kExperts) == doctest::Approx(2 * 4.5e-3).epsilon(1e-6));
  CHECK(p.totals.gpu_load[0] == doctest::Approx(150e3));
  CHECK(p.totals.gpu_load[1] == doctest::Approx(150e3));
  CHECK(p.totals.gpu_load[2] == doctest::Approx(50e3));
  CHECK(p.totals.gpu_load[3] == doctest::Approx(50e3));
  CHECK(p.totals.balancedness.mean(0, 0) == doctest::Approx(100.0 / 150));
  // What travels does not depend on where experts are.
  const Priced one = price(1, Dedup::kEven, Transport::kAllGatherReduceScatter);
  CHECK(of(p, LayerPart::kDispatch) == of(one, LayerPart::kDispatch));
}

TEST_CASE("memory: the experts of a GPU weigh the same on any number of EP ranks, a copy weighs less") {
  const MoeSpec model = find_model("DeepSeek-R1");
  const ClusterSpec cluster{find_node("DGX-H200").spec, 2};
  MemoryOptions options;
  options.static_fraction = 0.8;
  for (const int ep_size : {16, 8, 4, 2, 1}) {
    CAPTURE(ep_size);
    const Parallelism parallelism{.gpus = 16, .attention_tp = 8, .moe_tp = 16 / ep_size};
    const std::int64_t home = 58 * 256 / ep_size;
    const MemoryBreakdown m =
        memory_breakdown(model, cluster, parallelism, options, std::vector<std::int64_t>(16, home + 58));
    CHECK(to_gib(m.experts_base) == doctest::Approx(58 * 16 * 84.0 / 1024));             // 256 of 84 MiB on 16 GPUs
    CHECK(to_gib(m.expert_copies) == doctest::Approx(58 * 84.0 / 1024 * ep_size / 16));  // one a layer and EP rank
  }
}

TEST_CASE("a plan for EP ranks becomes a placement of their GPUs, shares by source included") {
  const PlacementPlan plan{.policy = "hand", .experts = 3, .gpus = 2, .layers = {uniform_layer({0, 1, 0, 2}, 2)}};
  // A source is an EP rank: each uses its own copy of expert 0.
  const SourceShares own{1, {1, 1, 0, 1, 0, 1, 1, 1}};
  const ClusterShape shape{.gpus = 4, .gpus_per_node = 4};
  const Placement p = Placement::build(plan, shape, 1_MiB, 2_MiB, {own}, 2);
  const LayerPlacement& layer = p.layer(0);
  CHECK(p.gpus() == 4);
  CHECK(layer.expert == std::vector<std::int32_t>{0, 1, 0, 1, 0, 2, 0, 2});
  CHECK(layer.first_slot == std::vector<std::int32_t>{0, 2, 4, 6, 8});
  CHECK(layer.copies == std::vector<std::int32_t>{2, 1, 1});
  CHECK(layer.share == std::vector<float>{0.5F, 1, 0.5F, 1, 0.5F, 1, 0.5F, 1});
  CHECK(layer.by_source.gpus_per_source == 2);
  CHECK(layer.by_source.share == std::vector<float>{1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1});
  CHECK(p.resident(3) == 2);
  CHECK_THROWS_AS(Placement::build(plan, shape, 1_MiB, 1_MiB, {}, 2), DoesNotFit);
  CHECK_THROWS_AS(Placement::build(plan, shape, 1_MiB, 2_MiB, {}, 1), InputError);
}

TEST_CASE("experts of few columns take as long as their rows take to be read and written") {
  // DeepSeek-R1 split over 256 GPUs: 8 of 2048 columns on each, where the A100's fit has no points.
  MoeSpec model = find_model("DeepSeek-R1");
  model.moe_intermediate /= 256;
  const NodeEntry node = find_node("p4de.24xlarge");
  REQUIRE(node.compute.fitted != nullptr);
  const FittedCompute compute(*node.compute.fitted, "", model, node.spec.gpu, {.gpus = 64, .attention_tp = 8});
  // 256 experts of 8192 rows of 7168 bf16 in and out: 30.1 GB a direction at 2.039 TB/s.
  const double rows = 256 * 8192.0, bytes = rows * 2 * 7168 * 2;
  CHECK(compute.experts(rows, 256, std::nullopt).time.count() ==
        doctest::Approx(bytes / node.spec.gpu.memory_bandwidth.count()).epsilon(1e-6));
}

// AIConfigurator, h200_sxm/moe/sglang/0.5.14, bf16, hidden 4096, 16,384 balanced tokens, top-8 of 128 experts of 1536 columns
// over 8 GPUs: SGLang's Triton kernel is tuned for 128 experts of 192 columns, not for a rank's 64 of 384.
TEST_CASE("ranks of Qwen3-235B's experts in bf16 take what was measured, and EP 1 the least") {
  const FittedProfile profile = fitted_profile("h200-sglang");
  const FittedOp* op = profile.find("grouped_gemm");
  REQUIRE(op != nullptr);
  for (const auto& [ep, measured_ms] :
       {std::pair(1, 1.84), std::pair(2, 2.87), std::pair(4, 2.96), std::pair(8, 3.21)}) {
    const double assignments = 16384 * 8, rows = assignments / ep, groups = 128.0 / ep, width = 1536.0 * ep / 8;
    const Price alone = expert_price(*op, {rows / groups, groups, rows / groups, 4096, width, 16384, 128});
    const double ms = op->rank_terms(4096, width).time(alone.time, rows / groups, assignments - rows).count() * 1e3;
    CAPTURE(ep);
    CAPTURE(ms);
    CHECK(std::abs(ms / measured_ms - 1) < 0.15);
  }
}

TEST_CASE("without expert parallelism a GPU is no rank, to whatever its rows round") {
  const MoeSpec model = find_model("qwen3-235b-a22b");
  const GpuSpec gpu = find_node("DGX-H200").spec.gpu;
  const auto compute = [&](int moe_tp) {
    Parallelism parallelism{.gpus = 8, .attention_tp = 8};
    parallelism.moe_tp = moe_tp;
    return FittedCompute(fitted_profile("h200-sglang"), "", parallelism.one_gpu_of(model), gpu, parallelism);
  };
  constexpr double kTokens = 16384, kAll = kTokens * 8;
  const FittedCompute split = compute(8), ranks = compute(4);
  const double alone = split.experts(kAll, 128, kTokens).time.count();
  CHECK(split.experts(kAll * (1 - 1e-7), 128, kTokens).time.count() == doctest::Approx(alone).epsilon(1e-6));
  // Half the rows of experts twice as wide: as much to compute, but no kernel tuned for 64 experts, and the others' rows.
  CHECK(ranks.experts(kAll / 2, 64, kTokens).time.count() > 1.3 * alone);
}
