#include "sim/domain/parallelism.h"

#include <doctest/doctest.h>

#include "sim/core/error.h"
#include "tests/domain/models.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

constexpr ClusterShape kEightNodes{.gpus = 64, .gpus_per_node = 8};

Parallelism layout(int gpus, int attention_tp) {
  Parallelism p;
  p.gpus = gpus;
  p.attention_tp = attention_tp;
  return p;
}

TEST_CASE("which GPU belongs to which DP rank and node") {
  const Parallelism p = layout(64, 8);
  CHECK(p.dp_ranks() == 8);
  CHECK(p.rank_of(0) == 0);
  CHECK(p.rank_of(7) == 0);
  CHECK(p.rank_of(8) == 1);
  CHECK(p.rank_of(63) == 7);
  CHECK(kEightNodes.nodes() == 8);
  CHECK(kEightNodes.node_of(15) == 1);
  CHECK(layout(64, 1).dp_ranks() == 64);
}

TEST_CASE("layouts that divide are taken: inside a node, a node, all nodes") {
  for (const int tp : {1, 2, 4, 8, 64}) {
    CAPTURE(tp);
    CHECK_NOTHROW(layout(64, tp).validate(test::deepseek_r1(), kEightNodes));
  }
  for (const int tp : {16, 32}) {  // several ranks over several nodes each
    CAPTURE(tp);
    CHECK_THROWS_AS(layout(64, tp).validate(test::deepseek_r1(), kEightNodes), InputError);
  }
}

TEST_CASE("EP ranks of several GPUs: what placements are made for, and what a GPU has of an expert") {
  Parallelism p = layout(64, 8);
  p.moe_tp = 4;
  CHECK(p.ep_size() == 16);
  CHECK(p.ep_shape(kEightNodes).gpus == 16);
  CHECK(p.ep_shape(kEightNodes).gpus_per_node == 2);
  CHECK(p.one_gpu_of(test::deepseek_r1()).moe_intermediate == 512);  // of 2048
  CHECK_NOTHROW(p.validate(test::deepseek_r1(), kEightNodes));
  p.moe_tp = 16;  // two nodes
  CHECK(p.ep_shape(kEightNodes).gpus_per_node == 1);
  CHECK(p.ep_shape(kEightNodes).nodes() == 4);
  MoeSpec fp8 = test::deepseek_r1();
  fp8.dtype = WeightType::kFp8;
  CHECK_NOTHROW(p.validate(fp8, kEightNodes));  // a block of 128 columns each
  CHECK(p.one_gpu_of(fp8).moe_intermediate == 128);
  p.moe_tp = 32;  // 64 columns, padded to a block; in bf16 they are as they are
  CHECK_NOTHROW(p.validate(fp8, kEightNodes));
  CHECK(p.one_gpu_of(fp8).moe_intermediate == 128);
  CHECK(p.one_gpu_of(test::deepseek_r1()).moe_intermediate == 64);
  fp8.moe_intermediate = 2049;
  const InputError e = test::error_of<InputError>([&] { p.validate(fp8, kEightNodes); });
  CHECK(e.place.key == "parallelism.ep_size");
  test::check_contains(e.what(), {"2049 columns", "32 GPUs"});
}

TEST_CASE("layouts that do not divide are refused with the numbers") {
  struct Row {
    Parallelism layout;
    ClusterShape shape;
    const char* key;
    const char* says;
  };
  const Row rows[] = {
      {layout(32, 8), kEightNodes, "parallelism.gpus", "spans 32 GPUs, the cluster has 64"},
      {layout(64, 0), kEightNodes, "parallelism.attention_tp", "of 0 GPUs"},
      {layout(64, -8), kEightNodes, "parallelism.attention_tp", "of -8 GPUs"},
      {layout(64, 3), kEightNodes, "parallelism.attention_tp",
       "64 GPUs do not divide into DP ranks of 3 GPUs. Allowed: 1, 2, 4, 8, 64."},
      {layout(24, 3), {.gpus = 24, .gpus_per_node = 8}, "parallelism.attention_tp", "do not align with nodes of 8"},
      {layout(24, 12), {.gpus = 24, .gpus_per_node = 8}, "parallelism.attention_tp", "do not align with nodes of 8"},
      {layout(6, 6), {.gpus = 6, .gpus_per_node = 6}, "parallelism.attention_tp", "128 attention heads do not divide"},
  };
  for (const Row& row : rows) {
    const InputError e = test::error_of<InputError>([&] { row.layout.validate(test::deepseek_r1(), row.shape); });
    CHECK(e.place.key == row.key);
    test::check_contains(e.what(), {row.says});
  }
}

}  // namespace
}  // namespace epsim
