// Shapes and sizes. Figures of the models: facts of their published configurations (Hugging Face config.json of
// deepseek-ai/DeepSeek-R1, moonshotai/Kimi-K2-Instruct, Qwen/Qwen3-235B-A22B, meta-llama/Llama-4-Maverick).
#include "sim/domain/moe_spec.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "sim/core/error.h"
#include "sim/domain/cluster_spec.h"
#include "tests/domain/models.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

using test::deepseek_r1;
using test::kimi_k2;
using test::qwen3_235b;

// GiB of a group of weights over all its layers, to the digits that the expectation has.
void check_gib(Bytes size, double layers, double expected, double digits) {
  CHECK(std::fabs(to_gib(size) * layers - expected) <= 0.5 * digits);
}

TEST_CASE("one expert: gate, up and down matrix") {
  CHECK(deepseek_r1().expert_bytes() == 84_MiB);  // 3 * 7168 * 2048 * 2 B = 88,080,384 B
  CHECK(deepseek_r1().expert_bytes().count() == 3.0 * 7168 * 2048 * 2);
  CHECK(kimi_k2().expert_bytes() == 84_MiB);
  CHECK(qwen3_235b().expert_bytes() == 36_MiB);  // 3 * 4096 * 1536 * 2 B
}

TEST_CASE("the parts of DeepSeek-R1's weights") {
  const MoeSpec m = deepseek_r1();
  // Every layer: q_a and kv_a, 7168 x (1536 + 512 + 64) x 2 B = 30,277,632 B; times 61
  check_gib(m.attention_replicated_bytes(), 61, 1.72, 0.01);
  CHECK(m.attention_replicated_bytes().count() == 7168.0 * 2112 * 2);
  // q_b 1536 x 128 x 192, kv_b 512 x 128 x 256, o 128 x 128 x 7168: 171,966,464 weights a layer
  CHECK(m.attention_split_bytes().count() == 2.0 * 171966464);
  check_gib(m.attention_split_bytes(), 61, 19.54, 0.01);
  check_gib(m.dense_ffn_bytes(), 3, 2.215, 0.001);  // 3 x 7168 x 18432 x 2 B
  check_gib(m.shared_expert_bytes(), 58, 4.758, 0.001);
  check_gib(m.embedding_bytes(), 1, 3.452, 0.001);  // 2 x 129280 x 7168 x 2 B
  check_gib(m.router_bytes(), 58, 0.20, 0.01);
}

TEST_CASE("the parts of Kimi-K2's weights") {
  const MoeSpec m = kimi_k2();
  check_gib(m.attention_replicated_bytes(), 61, 1.72, 0.01);
  check_gib(m.attention_split_bytes(), 61, 9.77, 0.01);  // half the heads of R1
  check_gib(m.dense_ffn_bytes(), 1, 0.738, 0.001);
  check_gib(m.shared_expert_bytes(), 60, 4.922, 0.001);
  check_gib(m.embedding_bytes(), 1, 4.375, 0.001);
  check_gib(m.router_bytes(), 60, 0.31, 0.01);
}

TEST_CASE("the parts add up to the published number of parameters") {
  const auto parameters = [](const MoeSpec& m) {
    const Bytes attention = (m.attention_replicated_bytes() + m.attention_split_bytes()) * m.layers;
    const Bytes moe = (m.expert_bytes() * m.experts + m.shared_expert_bytes() + m.router_bytes()) * m.moe_layers();
    const Bytes all = attention + moe + m.dense_ffn_bytes() * m.dense_layers() + m.embedding_bytes();
    return all.count() / 2;
  };
  CHECK(parameters(deepseek_r1()) == doctest::Approx(671e9).epsilon(0.001));
  CHECK(parameters(kimi_k2()) == doctest::Approx(1.04e12).epsilon(0.015));  // "1T", 1.04T in its report
  CHECK(parameters(qwen3_235b()) == doctest::Approx(235e9).epsilon(0.002));
}

TEST_CASE("KV cache of one token on one GPU") {
  for (const int tp : {1, 2, 8, 128}) {  // MLA keeps the latent whole on every GPU: (512 + 64) x 61 layers x 2 B
    CHECK(deepseek_r1().kv_bytes_per_token(tp).count() == 70272.0);
    CHECK(kimi_k2().kv_bytes_per_token(tp).count() == 70272.0);
  }
  // GQA splits its 4 KV heads of 128: 2 x heads x 128 x 94 layers x 2 B, at least one head a GPU
  CHECK(qwen3_235b().kv_bytes_per_token(1).count() == 192512.0);
  CHECK(qwen3_235b().kv_bytes_per_token(2).count() == 192512.0 / 2);
  CHECK(qwen3_235b().kv_bytes_per_token(4).count() == 192512.0 / 4);
  CHECK(qwen3_235b().kv_bytes_per_token(8).count() == 192512.0 / 4);
  CHECK(qwen3_235b().kv_bytes_per_token(3).count() == 192512.0 / 2);  // the fullest of 3 GPUs holds 2 heads
}

TEST_CASE("attention weights: queries without a low rank, grouped heads") {
  MoeSpec lite = deepseek_r1();  // the shapes of DeepSeek-V2-Lite: hidden 2048, 16 heads, no q_lora
  lite.hidden = 2048;
  lite.attention.heads = 16;
  lite.attention.q_lora_rank = 0;
  CHECK(lite.attention_replicated_bytes().count() == 2.0 * 2048 * 576);
  CHECK(lite.attention_split_bytes().count() == 2.0 * (2048.0 * 16 * 192 + 512.0 * 16 * 256 + 16.0 * 128 * 2048));
  CHECK(qwen3_235b().attention_replicated_bytes().count() == 0.0);
  // q and o: 64 heads, k and v: 4 heads, of 128 x 4096 each
  CHECK(qwen3_235b().attention_split_bytes().count() == 2.0 * 4096 * 128 * (64 + 64 + 4 + 4));
  CHECK(qwen3_235b().attention_split_bytes(4).count() == 2.0 * 4096 * 128 * (16 + 16 + 1 + 1));
  CHECK(qwen3_235b().attention_split_bytes(16).count() == 2.0 * 4096 * 128 * (4 + 4 + 1 + 1));  // a head is never split
}

// 512 bytes of latent, 4 scales of 4, 64 columns of rope in bf16: 656, and 128 + 4 of the index key.
TEST_CASE("sparse attention's cache in fp8 has scales, and rope in bf16") {
  MoeSpec m = deepseek_r1();
  m.bytes_per_kv = 1;
  CHECK(m.layer_kv_bytes(1).count() == 576);
  m.attention.limited = {{.reach = AttentionReach::kSparse, .layers = m.layers, .tokens = 2048}};
  m.attention.indexer = {.heads = 64, .head_dim = 128};
  CHECK(m.layer_kv_bytes(8).count() == 656);
  CHECK(m.kv_bytes_per_token(8).count() == m.layers * (656 + 132));
}

TEST_CASE("tied embeddings count once, and other types by their size") {
  MoeSpec m = qwen3_235b();
  const Bytes both = m.embedding_bytes();
  m.tied_embeddings = true;
  CHECK(m.embedding_bytes() == both / 2.0);
  m.dtype = WeightType::kFp8;
  CHECK(m.expert_bytes() == 18_MiB);
  m.bytes_per_kv = 1;
  CHECK(m.kv_bytes_per_token(4).count() == 192512.0 / 8);
}

// nvidia/DeepSeek-R1-0528-FP4-v2: FFNs and attention's output in nvfp4, 4 bits and an fp8 scale for every 16: 9/16 B.
TEST_CASE("a checkpoint of mixed types") {
  MoeSpec m = deepseek_r1();
  const Bytes split = m.attention_split_bytes(), embedding = m.embedding_bytes();
  m.dtype = WeightType::kFp4;
  CHECK(m.expert_bytes().count() == 3.0 * 7168 * 2048 * 9 / 16);
  CHECK(m.dense_ffn_bytes().count() == 3.0 * 7168 * 18432 * 9 / 16);
  CHECK(m.attention_split_bytes().count() == split.count() - 128.0 * 128 * 7168 * (2 - 9.0 / 16));
  CHECK(m.embedding_bytes() == embedding);
  // mxfp4: 4 bits and 8 for every 32; int4: 4 bits and 16 for every 32. Routed experts alone.
  const Bytes shared = deepseek_r1().shared_expert_bytes();
  for (const auto& [type, bytes] : {std::pair{WeightType::kMxfp4, 17.0 / 32}, std::pair{WeightType::kInt4, 9.0 / 16}}) {
    m.dtype = type;
    CHECK(m.expert_bytes().count() == 3.0 * 7168 * 2048 * bytes);
    CHECK(m.shared_expert_bytes() == shared);
    CHECK(m.attention_split_bytes() == split);
    CHECK(m.embedding_bytes() == embedding);
  }
}

TEST_CASE("the rate of products with weights of each type") {
  GpuSpec hopper, blackwell;
  hopper.bf16_peak = FlopsPerSecond(1);
  hopper.fp8_peak = FlopsPerSecond(2);
  blackwell = hopper;
  blackwell.fp4_peak = FlopsPerSecond(4);
  const auto rates = [](const GpuSpec& gpu) {
    std::vector<double> out;
    for (const auto& row : kNames<WeightType>) {
      out.push_back(gpu.product_rate(row.value).count());
    }
    return out;
  };
  CHECK(rates(hopper) == std::vector<double>{1, 2, 0, 1, 1});
  CHECK(rates(blackwell) == std::vector<double>{1, 2, 4, 2, 1});
}

TEST_CASE("which layers are MoE") {
  CHECK(deepseek_r1().moe_layers() == 58);
  CHECK(deepseek_r1().dense_layers() == 3);
  CHECK(deepseek_r1().moe_layer_numbers().front() == 3);
  CHECK(deepseek_r1().moe_layer_numbers().back() == 60);
  CHECK(kimi_k2().moe_layers() == 60);
  CHECK(qwen3_235b().moe_layers() == 94);
  MoeSpec alternate = qwen3_235b();  // as Llama 4 Maverick: every second of 48 layers, starting with a dense one
  alternate.layers = 48;
  alternate.moe_every = 2;
  CHECK(alternate.moe_layers() == 24);
  CHECK(alternate.moe_layer_numbers().front() == 1);
  CHECK(alternate.moe_layer_numbers().back() == 47);
  for (int layers = 1; layers < 12; ++layers) {
    for (int dense = 0; dense < layers; ++dense) {
      for (int every = 1; every < 5; ++every) {
        alternate.layers = layers;
        alternate.first_dense_layers = dense;
        alternate.moe_every = every;
        CHECK(alternate.moe_layer_numbers().size() == static_cast<std::size_t>(alternate.moe_layers()));
      }
    }
  }
}

TEST_CASE("validate() takes the published models and names each impossible figure") {
  CHECK_NOTHROW(deepseek_r1().validate());
  CHECK_NOTHROW(kimi_k2().validate());
  CHECK_NOTHROW(qwen3_235b().validate());
  struct Row {
    const char* says;
    std::function<void(MoeSpec&)> spoil;
  };
  const Row rows[] = {
      {"layers", [](MoeSpec& m) { m.layers = 0; }},
      {"hidden", [](MoeSpec& m) { m.hidden = -1; }},
      {"vocab", [](MoeSpec& m) { m.vocab = 0; }},
      {"first_dense_layers is 61", [](MoeSpec& m) { m.first_dense_layers = 61; }},
      {"first_dense_layers is -1", [](MoeSpec& m) { m.first_dense_layers = -1; }},
      {"no MoE layer", [](MoeSpec& m) { m.moe_every = 59; }},
      {"no MoE layer", [](MoeSpec& m) { m.moe_every = 0; }},
      {"experts", [](MoeSpec& m) { m.experts = 0; }},
      {"moe_intermediate", [](MoeSpec& m) { m.moe_intermediate = 0; }},
      {"top_k is 257", [](MoeSpec& m) { m.top_k = 257; }},
      {"top_k is 0", [](MoeSpec& m) { m.top_k = 0; }},
      {"do not divide into 7 groups", [](MoeSpec& m) { m.expert_groups = 7; }},
      {"top_groups", [](MoeSpec& m) { m.top_groups = 9; }},
      {"do not fit into top_groups", [](MoeSpec& m) { m.top_k = 129; }},
      {"dense_intermediate", [](MoeSpec& m) { m.dense_intermediate = 0; }},
      {"shared_intermediate", [](MoeSpec& m) { m.shared_intermediate = -1; }},
      {"q_lora_rank", [](MoeSpec& m) { m.attention.q_lora_rank = -1; }},
      {"bytes per KV element", [](MoeSpec& m) { m.bytes_per_kv = std::nan(""); }},
      {"heads", [](MoeSpec& m) { m.attention.heads = 0; }},
      {"MLA needs", [](MoeSpec& m) { m.attention.kv_lora_rank = 0; }},
      {"GQA needs", [](MoeSpec& m) { m.attention.kind = AttentionKind::kGqa; }},
  };
  for (const Row& row : rows) {
    MoeSpec m = deepseek_r1();
    row.spoil(m);
    const InputError e = test::error_of<InputError>([&] { m.validate(); });
    test::check_contains(e.what(), {row.says, "DeepSeek-R1"});
  }
}

}  // namespace
}  // namespace epsim
