// Each part of a layer, worked out by hand on a made-up GPU: 100 TF/s and 1 TB/s, half of the peak reached by every
// product, 80 % of the bandwidth, no constant per kernel.
#include "models/compute/roofline.h"

#include <doctest/doctest.h>

#include "tests/models/profiles.h"

using namespace epsim;
using namespace epsim::literals;

namespace {

const GpuSpec kGpu{"gpu", 100_TFps, FlopsPerSecond(0), 80_GiB, BytesPerSecond(1e12), ""};
constexpr double kFlops = 50e12;  // reached
constexpr double kBytes = 0.8e12;

MoeSpec mla() {
  MoeSpec m;
  m.name = "mla";
  m.layers = 4;
  m.first_dense_layers = 1;
  m.hidden = 1000;
  m.dense_intermediate = 3000;
  m.experts = 10;
  m.top_k = 2;
  m.moe_intermediate = 200;
  m.shared_intermediate = 400;
  m.vocab = 5000;
  m.attention = {.kind = AttentionKind::kMla,
                 .heads = 8,
                 .q_lora_rank = 300,
                 .kv_lora_rank = 100,
                 .qk_nope_head_dim = 20,
                 .qk_rope_head_dim = 10,
                 .v_head_dim = 25};
  m.validate();
  return m;
}

MoeSpec gqa() {
  MoeSpec m = mla();
  m.attention = {.kind = AttentionKind::kGqa, .heads = 8, .kv_heads = 2, .head_dim = 50};
  m.validate();
  return m;
}

ComputeModel compute(const MoeSpec& model, int tp, Sharding sharding = Sharding::kTensorParallel) {
  const Parallelism p{
      .gpus = 8, .attention_tp = tp, .shared_experts = sharding, .dense_ffn = sharding, .embedding = sharding};
  return {model, kGpu, p, test::plain_compute()};
}

double seconds(const Price& price) { return price.time.count(); }

// Norms and rotary embedding read and write the activations three times each: 6 x tokens x hidden x 2 B.
double norms(double tokens) { return 6 * tokens * 1000 * 2 / kBytes; }

}  // namespace

TEST_CASE("MLA prefill: projections by token, scores by pair, context expanded again") {
  const double n = 100000;
  const RankBatch fresh{.prefill_tokens = 100000, .prefill_pairs = 5e9, .sampled = 1};
  // Replicated: hidden x (300 + 100 + 10). Split over 2 GPUs: 300 x 8 x 30, 100 x 8 x 45 and 8 x 25 x 1000.
  const double weights = 1000.0 * 410 + (300.0 * 240 + 100.0 * 360 + 200.0 * 1000) / 2;
  // Scores and values: 2 x pairs x 4 heads x (20 + 10 + 25).
  const double expected = 2 * n * weights / kFlops + 2 * 5e9 * 4 * 55 / kFlops + norms(n);
  CHECK(seconds(compute(mla(), 2).attention(fresh)) == doctest::Approx(expected).epsilon(1e-9));
  // A chunk after 50000 cached tokens expands their latents: 100 x 4 heads x 45 per token.
  RankBatch later = fresh;
  later.prefill_context = 50000;
  CHECK(seconds(compute(mla(), 2).attention(later)) ==
        doctest::Approx(expected + 2 * 50000.0 * 100 * 4 * 45 / kFlops).epsilon(1e-9));
}

TEST_CASE("decode reads the cache: the latent on every GPU, or this GPU's KV heads") {
  const double context = 1e6;
  const auto cached = [&](const MoeSpec& model, int tp) {
    RankBatch none{.decode_tokens = 10, .sampled = 10}, some = none;
    some.decode_context = context;
    const ComputeModel c = compute(model, tp);
    return seconds(c.attention(some)) - seconds(c.attention(none));
  };
  CHECK(cached(mla(), 2) == doctest::Approx(context * 110 * 2 / kBytes).epsilon(1e-9));  // 100 + 10, bf16
  CHECK(cached(mla(), 8) == doctest::Approx(context * 110 * 2 / kBytes).epsilon(1e-9));
  CHECK(cached(gqa(), 2) == doctest::Approx(context * 2 * 1 * 50 * 2 / kBytes).epsilon(1e-9));  // one of 2 heads
  CHECK(cached(gqa(), 1) == doctest::Approx(context * 2 * 2 * 50 * 2 / kBytes).epsilon(1e-9));
}

TEST_CASE("small batches wait for the weights") {
  // One token: 2 x 410000 B of replicated and 2 x 154000 B of split weights are read; products take next to nothing.
  const RankBatch one{.decode_tokens = 1, .sampled = 1};
  CHECK(seconds(compute(mla(), 2).attention(one)) ==
        doctest::Approx((2 * 410000.0 + 2 * 154000.0) / kBytes + norms(1)).epsilon(1e-9));
}

TEST_CASE("gate, dense FFN and shared experts: whose tokens, whose weights") {
  const double n = 80000;
  // The router works on this GPU's share of the tokens: n / 2 x 1000 x 10 products, and float32 scores.
  CHECK(seconds(compute(mla(), 2).gate(80000)) ==
        doctest::Approx(2 * n / 2 * 1000 * 10 / kFlops + n / 2 * 10 * 4 / kBytes).epsilon(1e-9));
  // Split: all tokens, half of 3 x 1000 x 3000 weights; the activation moves 3 bf16 values per column.
  const double split = 2 * n * 4.5e6 / kFlops + n * 1500 * 3 * 2 / kBytes;
  CHECK(seconds(compute(mla(), 2).dense_ffn(80000)) == doctest::Approx(split).epsilon(1e-9));
  // Replicated: half of the tokens, all weights. The same work; here the same time.
  CHECK(seconds(compute(mla(), 2, Sharding::kReplicated).dense_ffn(80000)) == doctest::Approx(split).epsilon(1e-9));
  CHECK(seconds(compute(mla(), 2).shared_expert(80000)) ==
        doctest::Approx(2 * n * 0.6e6 / kFlops + n * 200 * 3 * 2 / kBytes).epsilon(1e-9));
}

TEST_CASE("experts: products at the measured share, or the weights of those touched") {
  const ComputeModel c = compute(mla(), 2);
  // 6 x 1000 x 200 flops a row.
  CHECK(seconds(c.experts(1e6, 5)) == doctest::Approx(1e6 * 1.2e6 / kFlops).epsilon(1e-6));
  // Two rows on two experts: 2 x 1.2 MB at 80 %.
  CHECK(seconds(c.experts(2, 2)) == doctest::Approx(2 * 1.2e6 / kBytes).epsilon(1e-6));
  CHECK(seconds(c.experts(0, 0)) == 0.0);
}

TEST_CASE("the grouped GEMM's share follows its measured curve over rows per expert") {
  ComputeProfile profile = test::plain_compute();
  profile.grouped_gemm[0].curve.points = {{16, 0.1}, {256, 0.4}};
  const ComputeModel c(mla(), kGpu, {.gpus = 8, .attention_tp = 2}, profile);
  const auto share = [&](double rows_per_expert) {
    return rows_per_expert * 4 * 1.2e6 / seconds(c.experts(rows_per_expert * 4, 4)) / 100e12;
  };
  CHECK(share(256) == doctest::Approx(0.4).epsilon(1e-6));
  CHECK(share(4096) == doctest::Approx(0.4).epsilon(1e-6));  // beyond the curve it stays
  // log(share) is straight in log(rows): at 64 rows, half way, sqrt(0.1 x 0.4) = 0.2. The table's steps cost under 1 %.
  CHECK(share(64) == doctest::Approx(0.2).epsilon(0.01));
  CHECK(c.experts(4096.0 * 4, 4).origin == Origin::kExtrapolated);
}

TEST_CASE("nothing to do takes no time") {
  const ComputeModel c = compute(mla(), 2);
  CHECK(seconds(c.attention({})) == 0.0);
  CHECK(seconds(c.gate(0)) == 0.0);
  CHECK(seconds(c.shared_expert(0)) == 0.0);
  CHECK(seconds(c.head(0)) == 0.0);
}
