#include <doctest/doctest.h>

#include "sim/core/check.h"
#include "sim/domain/placement.h"

using namespace epsim;

namespace {

// Two nodes of one GPU; expert 0 on both, expert 1 on GPU 1.
const ClusterShape kShape{.gpus = 2, .gpus_per_node = 1};
const PlacementPlan kPlan{.policy = "test",
                          .experts = 2,
                          .gpus = 2,
                          .layers = {{.slots = {0, 0, 1}, .first_slot = {0, 1, 3}, .copy_rank = {}}}};

LayerPlacement built(SourceShares shares) {
  return Placement::build(kPlan, kShape, Bytes(1), Bytes(10), {std::move(shares)}).layer(0);
}

}  // namespace

TEST_CASE("shares by source: kept, and their mean is the layer's share") {
  const LayerPlacement layer = built({1, {1, 0, 1, 0.5F, 0.5F, 1}});
  CHECK(layer.by_source.gpus_per_source == 1);
  CHECK(layer.share == std::vector<float>{0.75F, 0.25F, 1});
  const Placement placement = Placement::build(kPlan, kShape, Bytes(1), Bytes(10), {{1, {1, 0, 1, 0.5F, 0.5F, 1}}});
  CHECK(placement.gpu_loads(0, std::vector<double>{100, 8}) == std::vector<double>{75, 33});
}

TEST_CASE("one source for all GPUs needs no table") {
  const LayerPlacement layer = built({2, {0.75F, 0.25F, 1}});
  CHECK(layer.by_source.empty());
  CHECK(layer.share == std::vector<float>{0.75F, 0.25F, 1});
}

TEST_CASE("shares that lose or repeat tokens are refused") {
  CHECK_THROWS_AS(built({1, {1, 0, 1, 0.5F, 0.4F, 1}}), InvariantBroken);
  CHECK_THROWS_AS(built({1, {1, 0, 1, 1, 1, 1}}), InvariantBroken);
  CHECK_THROWS_AS(built({1, {1.5F, -0.5F, 1, 1, 0, 1}}), InvariantBroken);
  CHECK_THROWS_AS(built({1, {1, 0, 1}}), InvariantBroken);  // one source of two
  CHECK_THROWS_AS(built({0, {}}), InvariantBroken);
  CHECK_THROWS_AS(Placement::build(kPlan, kShape, Bytes(1), Bytes(10), std::vector<SourceShares>(2)), InvariantBroken);
}
