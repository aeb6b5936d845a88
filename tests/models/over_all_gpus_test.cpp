// Dense layers and the output head over all GPUs of an instance, worked out by hand (small_step.h): 10 GB/s between two
// nodes of two GPUs at 80 %, products at 50 TF/s, memory at 0.8 TB/s.
#include <doctest/doctest.h>

#include "models/catalogue/model_catalogue.h"
#include "models/memory/memory_model.h"
#include "tests/models/small_step.h"

using namespace epsim;

namespace {

StepCost cost_of_step(Sharding dense_ffn, Sharding lm_head, const StepConditions& conditions = {}) {
  test::SmallStep b;
  b.parallelism.dense_ffn = dense_ffn;
  b.parallelism.lm_head = lm_head;
  const Placement placement = b.placement();
  const test::FixedLoads loads(2, {1.0F, 0.5F, 0.25F, 0.25F});
  StepModel model = b.step_model(placement, loads);
  model.set_conditions(conditions);
  const std::vector<RankBatch> batches{{.prefill_tokens = 50000, .prefill_pairs = 1e9, .sampled = 3},
                                       {.prefill_tokens = 30000, .prefill_pairs = 1e9, .sampled = 2}};
  return model.price(0, batches);
}

double seconds_of(const StepCost& cost, LayerPart part) { return cost.by_part[static_cast<std::size_t>(part)].count(); }

}  // namespace

// SGLang without --moe-dense-tp-size: layers/communicator.py has ScatterMode.FULL for dense layers, gathered by dp_gather
// and summed by the MLP's all-reduce.
TEST_CASE("a dense layer over all GPUs: all tokens through a part of it, between two all-reduces over all") {
  // Each of four GPUs has 1000 of 4000 columns and all 80,000 rows: 6 x 1000 x 1000 x 80,000 flops = 9.6 ms, and 480 MB of
  // activations = 0.6 ms. The buffer of 160 MB crosses the NICs, half of it twice: 160 MB at 10 GB/s = 16 ms / 0.8.
  const StepCost cost = cost_of_step(Sharding::kAllGpus, Sharding::kTensorParallel);
  CHECK(seconds_of(cost, LayerPart::kDense) == doctest::Approx(2 * 20e-3 + 9.6e-3 + 0.6e-3));
  // Split within the rank, the longer one has 50,000 rows of 2000 columns: 12 ms, 0.75 ms; an all-gather and a
  // reduce-scatter of 100 MB, half of it over a port at 100 GB/s: 0.5 ms / 0.5 each.
  const StepCost within = cost_of_step(Sharding::kTensorParallel, Sharding::kTensorParallel);
  CHECK(seconds_of(within, LayerPart::kDense) == doctest::Approx(12e-3 + 0.75e-3 + 2 * 1e-3));
}

// SGLang without --enable-dp-lm-head: layers/logits_processor.py gathers the rows to sample from and all logits.
TEST_CASE("the head over all GPUs: all ranks' rows, a part of the vocabulary, all logits gathered") {
  // 5 rows of 2000 B all-reduced: 10 kB over the NICs = 1 us / 0.8. A quarter of 4 MB read = 1.25 us; logits in float32
  // 40 kB = 0.05 us. 20 kB of bf16 logits, half of them over the NICs = 1 us / 0.8.
  const StepCost cost = cost_of_step(Sharding::kTensorParallel, Sharding::kAllGpus);
  CHECK(seconds_of(cost, LayerPart::kOther) == doctest::Approx(1.25e-6 + 1.25e-6 + 0.05e-6 + 1.25e-6).epsilon(1e-5));
}

// As above: a NIC at half its rate, a port at half beside another's NIC at half, or a GPU's products at half.
TEST_CASE("collectives over all GPUs wait for the slowest port or NIC of all, products for the slowest GPU") {
  const auto cost = [](const StepConditions& at) { return cost_of_step(Sharding::kAllGpus, Sharding::kAllGpus, at); };
  const auto dense = [&](const StepConditions& at) { return seconds_of(cost(at), LayerPart::kDense); };
  const auto head = [&](const StepConditions& at) { return seconds_of(cost(at), LayerPart::kOther); };
  const std::vector<double> one{1, 1, 1, 0.5}, other{1, 1, 0.5, 1};
  for (const StepConditions& at : {StepConditions{.gpu_speed = {}, .link_speed = {}, .nic_speed = one},
                                   StepConditions{.gpu_speed = {}, .link_speed = one, .nic_speed = {}},
                                   StepConditions{.gpu_speed = {}, .link_speed = one, .nic_speed = other}}) {
    CHECK(dense(at) == doctest::Approx(4 * 20e-3 + 9.6e-3 + 0.6e-3));
    CHECK(head(at) == doctest::Approx(2 * 1.25e-6 + 1.25e-6 + 0.05e-6 + 2 * 1.25e-6).epsilon(1e-5));
  }
  CHECK(dense({.gpu_speed = {}, .link_speed = one, .nic_speed = one}) == doctest::Approx(8 * 20e-3 + 9.6e-3 + 0.6e-3));
  CHECK(dense({.gpu_speed = one, .link_speed = {}}) == doctest::Approx(2 * 20e-3 + 2 * (9.6e-3 + 0.6e-3)));
}

TEST_CASE("memory: what is over all GPUs weighs a share of them each") {
  const MoeSpec r1 = find_model("deepseek-r1");
  Parallelism p{.gpus = 64, .attention_tp = 8};
  p.dense_ffn = p.lm_head = Sharding::kAllGpus;
  const WeightBytes all = weights_per_gpu(r1, p);
  CHECK(all.dense_ffn.count() == doctest::Approx(3 * 3.0 * 7168 * 18432 * 2 / 64));
  CHECK(all.embedding.count() == doctest::Approx(129280.0 * 7168 * 2 * (1.0 / 8 + 1.0 / 64)));
}
