// Each part of a layer, worked out by hand on a made-up GPU: 100 TF/s and 1 TB/s, half of the peak reached by every
// product, 80 % of the bandwidth, no constant per kernel.
#include "models/compute/roofline.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "models/catalogue/catalogue.h"
#include "models/catalogue/model_catalogue.h"
#include "models/compute/fitted_compute.h"
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
      .gpus = 8, .attention_tp = tp, .shared_experts = sharding, .dense_ffn = sharding, .lm_head = sharding};
  return {model, kGpu, p, test::plain_compute()};
}

double seconds(const Price& price) { return price.time.count(); }

// Two norms add the residual first: two rows of 1000 read, two written. Between the products `values` are read and written.
double norms(double tokens, double values) { return (2 * 4 * 1000 + 2 * values) * tokens * 2 / kBytes; }
// Of mla() on two GPUs: the latents of 300 + 100; the rotary part of 4 heads, 10 each, and the cached 100 + 10.
constexpr double kMlaBetween = 300 + 100 + 4 * 10 + 110;

}  // namespace

TEST_CASE("MLA prefill: projections by token, scores by pair, context expanded again") {
  const double n = 100000;
  const RankBatch fresh{.prefill_tokens = 100000, .prefill_pairs = 5e9, .sampled = 1};
  // Replicated: hidden x (300 + 100 + 10). Split over 2 GPUs: 300 x 8 x 30, 100 x 8 x 45 and 8 x 25 x 1000.
  const double weights = 1000.0 * 410 + (300.0 * 240 + 100.0 * 360 + 200.0 * 1000) / 2;
  // Scores and values: 2 x pairs x 4 heads x (20 + 10 + 25).
  const double expected = 2 * n * weights / kFlops + 2 * 5e9 * 4 * 55 / kFlops + norms(n, kMlaBetween);
  CHECK(seconds(compute(mla(), 2).attention(fresh)) == doctest::Approx(expected).epsilon(1e-9));
  // A chunk after 50000 cached tokens expands their latents: 100 x 4 heads x 45 per token.
  RankBatch later = fresh;
  later.prefill_context = 50000;
  CHECK(seconds(compute(mla(), 2).attention(later)) ==
        doctest::Approx(expected + 2 * 50000.0 * 100 * 4 * 45 / kFlops).epsilon(1e-9));
}

// SGLang v0.4.8, models/deepseek_v2.py, dispatch_attn_forward_method: one form for the whole batch, the absorbed one as soon
// as a sequence has cached tokens before it (Triton, FlashInfer), or fewer than 8192 all together (fa3).
TEST_CASE("MLA prompts beside a decode: absorbed, wider scores for the whole batch") {
  MoeSpec model = mla();
  const auto time = [&](double below, const RankBatch& batch) {
    model.attention.absorbed_below = below;
    return seconds(compute(model, 2).attention(batch));
  };
  const RankBatch fresh{.prefill_tokens = 100000, .prefill_pairs = 5e9, .sampled = 1};
  RankBatch mixed = fresh, later = fresh;
  mixed.decode_tokens = 10;
  mixed.decode_context = 50000;
  later.prefill_context = 50000;
  constexpr double kAlways = std::numeric_limits<double>::infinity();
  // Scores and values of 2 x 100 + 10 = 210 columns in place of 20 + 10 + 25 = 55, for 5e9 pairs and 4 heads.
  const double wider = 2 * 5e9 * 4 * (210 - 55) / kFlops;
  CHECK(time(kAlways, mixed) - time(0, mixed) == doctest::Approx(wider).epsilon(1e-9));
  CHECK(time(50001, mixed) == time(kAlways, mixed));
  CHECK(time(50000, mixed) == time(0, mixed));
  CHECK(time(kAlways, fresh) == time(0, fresh));
  // A later chunk's context is not expanded then: 100 x 4 heads x 45 per token.
  CHECK(time(kAlways, later) - time(0, later) ==
        doctest::Approx(wider - 2 * 50000.0 * 100 * 4 * 45 / kFlops).epsilon(1e-9));
  // DeepSeek's 512 + 64 + 512 against 128 + 64 + 128 columns: 2176 against 640 flops a pair and head.
  const AttentionSpec r1 = find_model("deepseek-r1").attention;
  CHECK(2 * (2 * r1.kv_lora_rank + r1.qk_rope_head_dim) == 2176);
  CHECK(2 * (r1.qk_nope_head_dim + r1.qk_rope_head_dim + r1.v_head_dim) == 640);
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

// mla() with 128 heads: a query does 2 x 128 x (2 x 100 + 10) = 53,760 flops with each cached token, whose 110 columns are
// 220 bytes. At 660 / 989 of 100 TF/s and 0.8 TB/s: 0.806 against 0.275 ns.
TEST_CASE("drafts are verified over the same cache, by as many products") {
  MoeSpec m = mla();
  m.attention.heads = 128;
  const ComputeModel c = compute(m, 1);
  const auto scores = [&](int queries, double context) {
    RankBatch batch{.decode_tokens = 10 * queries, .sampled = 10, .decode_queries = queries};
    const double without = seconds(c.attention(batch));
    batch.decode_context = context;
    return seconds(c.attention(batch)) - without;
  };
  const double product = 53760 / (100e12 * 660 / 989);
  CHECK(scores(1, 1e6) == doctest::Approx(1e6 * product));
  CHECK(scores(4, 1e6) == doctest::Approx(4e6 * product));
  m.attention.heads = 8;  // 0.05 ns a query: four of them within the time of reading
  const ComputeModel few = compute(m, 1);
  const RankBatch four{.decode_tokens = 40, .decode_context = 1e6, .sampled = 10, .decode_queries = 4};
  const RankBatch one{.decode_tokens = 40, .decode_context = 1e6, .sampled = 10};
  CHECK(seconds(few.attention(four)) == seconds(few.attention(one)));
}

TEST_CASE("small batches wait for the weights") {
  // One token: 2 x 410000 B of replicated and 2 x 154000 B of split weights are read; products take next to nothing.
  const RankBatch one{.decode_tokens = 1, .sampled = 1};
  CHECK(seconds(compute(mla(), 2).attention(one)) ==
        doctest::Approx((2 * 410000.0 + 2 * 154000.0) / kBytes + norms(1, kMlaBetween)).epsilon(1e-9));
}

TEST_CASE("gate, dense FFN and shared experts: whose tokens, whose weights") {
  const double n = 80000;
  // The router: n x 1000 x 10 products, and float32 scores.
  CHECK(seconds(compute(mla(), 2).gate(n)) ==
        doctest::Approx(2 * n * 1000 * 10 / kFlops + n * 10 * 4 / kBytes).epsilon(1e-9));
  // Split: all tokens, half of 3 x 1000 x 3000 weights; the activation moves 3 bf16 values per column.
  const double split = 2 * n * 4.5e6 / kFlops + n * 1500 * 3 * 2 / kBytes;
  CHECK(seconds(compute(mla(), 2).dense_ffn(80000)) == doctest::Approx(split).epsilon(1e-9));
  // Replicated: half of the tokens, all weights. The same work; here the same time.
  CHECK(seconds(compute(mla(), 2, Sharding::kReplicated).dense_ffn(80000)) == doctest::Approx(split).epsilon(1e-9));
  CHECK(seconds(compute(mla(), 2).shared_expert(80000)) ==
        doctest::Approx(2 * n * 0.6e6 / kFlops + n * 200 * 3 * 2 / kBytes).epsilon(1e-9));
}

TEST_CASE("a draft's input: the embedding and the hidden state side by side, through one product") {
  const ComputeModel c = compute(mla(), 2);
  // 2000 x 1000 weights in bf16 for one token; two norms read and write 1000 values in bf16 each.
  CHECK(seconds(c.mtp_input(1)) == doctest::Approx((2e6 * 2 + 4.0 * 1000 * 2) / kBytes).epsilon(1e-9));
  CHECK(seconds(c.mtp_input(80000)) ==
        doctest::Approx(80000 * (2 * 2e6 / kFlops + 4.0 * 1000 * 2 / kBytes)).epsilon(1e-9));
  CHECK(seconds(c.mtp_input(0)) == 0.0);
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
  // log(share) is straight in log(rows): at 64 rows, half way, sqrt(0.1 x 0.4) = 0.2.
  CHECK(share(64) == doctest::Approx(0.2).epsilon(1e-6));
  // At the table's own steps, 2^octave x (1 + eighths), exactly; between them its chord lies under the curve by less
  // than (1/8)^2 / 8 x |0.5 x -0.5| = 0.05 %. doctest's scale adds 1 to the ratio: twice its epsilon.
  CHECK(share(18) / (0.1 * std::sqrt(18.0 / 16)) == doctest::Approx(1).epsilon(1e-6));
  CHECK(share(22) / (0.1 * std::sqrt(22.0 / 16)) == doctest::Approx(1).epsilon(1e-6));
  CHECK(share(17) / (0.1 * std::sqrt(17.0 / 16)) == doctest::Approx(1).epsilon(0.0005 / 2));
  CHECK(share(23) / (0.1 * std::sqrt(23.0 / 16)) == doctest::Approx(1).epsilon(0.0005 / 2));
  CHECK(c.experts(4096.0 * 4, 4).origin == Origin::kExtrapolated);
}

// Half of the layers have a window of 100 tokens: half of what the scores of full attention take, and half of 100
// tokens each. The projections stay.
TEST_CASE("windows: a layer's mean over both kinds") {
  MoeSpec windowed = gqa();
  windowed.attention.limited = {{AttentionReach::kSliding, 2, 100}};
  windowed.validate();
  RankBatch none{.decode_tokens = 10, .sampled = 10}, some = none;
  some.decode_context = 10 * 5000.0;
  const ComputeModel full = compute(gqa(), 1), mixed = compute(windowed, 1);
  CHECK(seconds(mixed.attention(none)) == seconds(full.attention(none)));
  const double per_token = 2 * 2 * 50 * 2 / kBytes;  // K and V of 2 heads of 50 in bf16
  CHECK(seconds(mixed.attention(some)) - seconds(mixed.attention(none)) ==
        doctest::Approx((0.5 * 5000 + 0.5 * 100) * 10 * per_token).epsilon(1e-9));
  CHECK(mixed.attention(some).origin == Origin::kExtrapolated);
  // Within the window nothing changes, to the bit.
  some.decode_context = 10 * 99.0;
  CHECK(seconds(mixed.attention(some)) == seconds(full.attention(some)));
  CHECK(mixed.attention(some).origin == full.attention(some).origin);
  CHECK(seconds(mixed.before_scores(some)) == seconds(full.before_scores(some)));
}

TEST_CASE("sparse attention: the indexer scores all tokens, the latents of the top k are read") {
  MoeSpec sparse = mla();
  sparse.attention.limited = {{AttentionReach::kSparse, 4, 200}};
  sparse.attention.indexer = {.heads = 16, .head_dim = 128};
  sparse.validate();
  const ComputeModel c = compute(sparse, 2);
  RankBatch none{.decode_tokens = 10, .sampled = 10}, some = none;
  some.decode_context = 10 * 7000.0;
  // Keys of 128 + 4 B take longer to read than 2 x 16 x 128 flops to multiply; scores are written and read in float32.
  const double indexer = 10 * 7000 * (132 / kBytes + 8 / kBytes);
  CHECK(10 * 7000 * 132 / kBytes > 10 * 7000 * 2.0 * 16 * 128 / kFlops);
  const double choice = 8.5e-6 + 0.43e-9 * 7000;  // of one sequence, however many there are
  CHECK(seconds(c.attention(some)) - seconds(c.attention(none)) ==
        doctest::Approx(indexer + choice + 10 * 200 * 110 * 2 / kBytes).epsilon(1e-9));
  // Its weights are whole on every GPU: queries 300 x 16 x 128, key and weights of the heads 1000 x (128 + 16).
  const double weights = 300.0 * 16 * 128 + 1000.0 * 144;
  CHECK(seconds(c.attention(none)) - seconds(compute(mla(), 2).attention(none)) ==
        doctest::Approx(2 * weights / kBytes).epsilon(1e-9));
  // A prompt of 1000 tokens: 200 x 201 / 2 + 800 x 200 pairs in the absorbed form, 4 heads padded to 64 x (2 x 100 +
  // 10); 500500 pairs for the indexer. One of 150 tokens has full attention and no scores of the indexer.
  const auto prompt = [&](const ComputeModel& of, double n) {
    const RankBatch b{.prefill_tokens = static_cast<std::int64_t>(n), .prefill_pairs = n * (n + 1) / 2, .sampled = 1};
    RankBatch bare = b;
    bare.prefill_pairs = 0;
    return seconds(of.attention(b)) - seconds(of.attention(bare));
  };
  const double picked = 2 * (200.0 * 201 / 2 + 800 * 200) * 64 * 210 / kFlops;
  CHECK(prompt(c, 1000) == doctest::Approx(picked + 500500 * (2.0 * 16 * 128 / kFlops + 8 / kBytes)).epsilon(1e-6));
  CHECK(prompt(c, 150) == doctest::Approx(prompt(compute(mla(), 2), 150)).epsilon(1e-6));
}

TEST_CASE("linear attention: no context, a state read and written for each decode") {
  MoeSpec hybrid = gqa();
  hybrid.attention.limited = {{AttentionReach::kLinear, 3}};  // of 4 layers
  hybrid.attention.linear = {
      .key_heads = 4, .value_heads = 8, .key_head_dim = 64, .value_head_dim = 32, .conv_kernel = 4};
  hybrid.validate();
  const ComputeModel c = compute(hybrid, 2), full = compute(gqa(), 2);
  RankBatch none{.decode_tokens = 10, .sampled = 10}, some = none;
  some.decode_context = 1e6;
  // A quarter of the layers reads the cache.
  CHECK(seconds(c.attention(some)) - seconds(c.attention(none)) ==
        doctest::Approx((seconds(full.attention(some)) - seconds(full.attention(none))) / 4).epsilon(1e-6));
  // A state: 8 x 64 x 32 in float32, 3 steps of 2 x 4 x 64 + 8 x 32 = 768 columns in bf16; half of it on each GPU.
  CHECK(hybrid.linear_state_bytes().count() == 8 * 64 * 32 * 4 + 3 * 768 * 2);
  const double states = 10 * 2 * (8 * 64 * 32 * 4 + 3 * 768 * 2) / 2;
  const double activations = 10 * (2 * 768 + 3 * 256) / 2 * 2;
  // Projections of a linear layer: 1000 x (768 + 256 + 2 x 8) in, 256 x 1000 out, and 768 x 4 of the convolution.
  const double linear = (1000.0 * 1040 + 256 * 1000 + 768 * 4) / 2 * 2, softmax = 2 * (1000.0 * 50 * (16 + 4)) / 2;
  CHECK(seconds(c.attention(none)) ==
        doctest::Approx(0.25 * softmax / kBytes + 0.75 * (linear + states + activations) / kBytes +
                        norms(10, 4 * 50 + 2 * 50))
            .epsilon(1e-6));
  // Ten tokens of prompts run the delta rule at 5 % of the peak: of 8 / 2 heads, 3 x 64 x 32 with the state and, in chunks of
  // 64, 3 x 64 + 2 x 32 columns. They read no states.
  const double delta = 2.0 * 10 * 4 * (3 * 64 * 32 + 64 * (3 * 64 + 2 * 32)) / (0.05 * 100e12);
  const RankBatch prompts{.prefill_tokens = 10};
  CHECK(seconds(c.attention(prompts)) - seconds(c.attention(none)) ==
        doctest::Approx(0.75 * (delta - states / kBytes)).epsilon(1e-6));
}

TEST_CASE("what comes ahead of the scores, by fits: each kind of layer's own products by its share of the layers") {
  // Qwen3-Next-80B: one layer in four attends to everything, three are linear.
  const MoeSpec model = find_model("Qwen3-Next-80B-A3B");
  const NodeEntry node = find_node("DGX-H200");
  REQUIRE(node.compute.fitted != nullptr);
  const Parallelism alone{.gpus = 8, .attention_tp = 1};
  const ComputeModel c(model, node.spec.gpu, alone, node.compute);
  const FittedCompute fits(*node.compute.fitted, "", model, node.spec.gpu, alone);
  REQUIRE(fits.has_dense());
  const AttentionSpec& a = model.attention;
  REQUIRE(model.layers_of(AttentionReach::kLinear) * 4 == model.layers * 3);
  const double tokens = 512, width = model.hidden;
  const double full = (a.output_gate ? 2.0 : 1.0) * a.heads * a.head_dim + 2.0 * a.kv_heads * a.head_dim;
  const LinearAttentionSpec& l = a.linear;
  const double linear = l.conv_width() + l.value_width() + 2.0 * l.value_heads;
  const auto product = [&](double columns) { return fits.product(tokens, {columns, width}).time.count(); };
  const double products = 0.25 * product(full) + 0.75 * product(linear);
  // The rest are norms, the same as of a model whose layers all attend to everything.
  MoeSpec softmax = model;
  softmax.attention.limited = {};
  const ComputeModel all(softmax, node.spec.gpu, alone, node.compute);
  const RankBatch batch{.decode_tokens = 512, .sampled = 512};
  CHECK(seconds(c.before_scores(batch)) - products ==
        doctest::Approx(seconds(all.before_scores(batch)) - product(full)).epsilon(1e-6));
}

// 64 requests at 64k tokens of context, attention over 8 H200. R1's layer reads 64 x 65,536 latents of 576 bf16 values,
// 4.8 GB: 1.0 ms at the H200's 4.8 TB/s. V3.2's reads as many index keys of 132 B, 0.55 GB, and 64 x 2048 latents.
TEST_CASE("a decode at 64k: sparse attention is several times cheaper, and dearer below the top k") {
  const NodeEntry node = find_node("DGX-H200");
  const Parallelism p{.gpus = 8, .attention_tp = 8};
  const auto layer = [&](const char* name, double context) {
    const ComputeModel c(find_model(name), node.spec.gpu, p, node.compute);
    return seconds(c.attention({.decode_tokens = 64, .decode_context = 64 * context, .sampled = 64}));
  };
  MESSAGE("R1, V3.2 at 64k: ", layer("DeepSeek-R1", 65536), " ", layer("DeepSeek-V3.2", 65536));
  CHECK(layer("DeepSeek-R1", 65536) > 64.0 * 65536 * 1152 / 4.8e12);
  CHECK(layer("DeepSeek-V3.2", 65536) < layer("DeepSeek-R1", 65536) / 3);
  CHECK(layer("DeepSeek-V3.2", 65536) > layer("DeepSeek-V3.2", 4096));  // the indexer's keys still grow
  CHECK(layer("DeepSeek-V3.2", 1024) > layer("DeepSeek-R1", 1024));
}

TEST_CASE("nothing to do takes no time") {
  const ComputeModel c = compute(mla(), 2);
  CHECK(seconds(c.attention({})) == 0.0);
  CHECK(seconds(c.gate(0)) == 0.0);
  CHECK(seconds(c.shared_expert(0)) == 0.0);
  CHECK(seconds(c.head(0)) == 0.0);
}
