#include "models/catalogue/hf_config.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/catalogue/model_catalogue.h"
#include "sim/core/error.h"
#include "tests/models/hf_configs.h"
#include "tests/support/paths.h"

using namespace epsim;
using namespace epsim::test;
using nlohmann::json;

namespace {

// Every figure that time, traffic or memory depends on.
void check_same(const MoeSpec& a, const MoeSpec& b) {
  CHECK(a.layers == b.layers);
  CHECK(a.first_dense_layers == b.first_dense_layers);
  CHECK(a.moe_every == b.moe_every);
  CHECK(a.hidden == b.hidden);
  CHECK(a.dense_intermediate == b.dense_intermediate);
  CHECK(a.experts == b.experts);
  CHECK(a.top_k == b.top_k);
  CHECK(a.moe_intermediate == b.moe_intermediate);
  CHECK(a.shared_intermediate == b.shared_intermediate);
  CHECK(a.expert_groups == b.expert_groups);
  CHECK(a.top_groups == b.top_groups);
  CHECK(a.vocab == b.vocab);
  CHECK(a.tied_embeddings == b.tied_embeddings);
  CHECK(a.dtype == b.dtype);
  CHECK(a.bytes_per_kv == b.bytes_per_kv);
  CHECK(a.attention.kind == b.attention.kind);
  CHECK(a.attention.heads == b.attention.heads);
  CHECK(a.attention.kv_heads == b.attention.kv_heads);
  CHECK(a.attention.head_dim == b.attention.head_dim);
  CHECK(a.attention.q_lora_rank == b.attention.q_lora_rank);
  CHECK(a.attention.kv_lora_rank == b.attention.kv_lora_rank);
  CHECK(a.attention.qk_nope_head_dim == b.attention.qk_nope_head_dim);
  CHECK(a.attention.qk_rope_head_dim == b.attention.qk_rope_head_dim);
  CHECK(a.attention.v_head_dim == b.attention.v_head_dim);
  CHECK(a.attention.output_gate == b.attention.output_gate);
  CHECK(a.attention.indexer.heads == b.attention.indexer.heads);
  REQUIRE(a.attention.limited.size() == b.attention.limited.size());
  for (std::size_t i = 0; i < a.attention.limited.size(); ++i) {
    CHECK(a.attention.limited[i].reach == b.attention.limited[i].reach);
    CHECK(a.attention.limited[i].layers == b.attention.limited[i].layers);
    CHECK(a.attention.limited[i].tokens == b.attention.limited[i].tokens);
  }
  CHECK(a.kv_bytes_per_token(1) == b.kv_bytes_per_token(1));
  CHECK(a.kv_bytes_per_sequence(1) == b.kv_bytes_per_sequence(1));
}

}  // namespace

TEST_CASE("a config.json gives the model of the catalogue") {
  const std::vector<KnownConfig> all = known_configs();
  CHECK(all.size() == list_models().size());
  for (const KnownConfig& k : all) {
    CAPTURE(k.name);
    check_same(parsed(k.config), find_model(k.name));
  }
}

TEST_CASE("the model is called like its folder") {
  CHECK(parsed(deepseek_r1()).name == "some-model");
  CHECK(parse_hf_config(deepseek_r1().dump(), "models/r1.json").name == "r1");
  CHECK(parsed(deepseek_r1()).source == "some-model/config.json");
}

TEST_CASE("read from a file, by the model catalogue too") {
  const test::TempDir folder;
  std::ofstream(folder / "config.json") << deepseek_r1().dump();
  check_same(find_model((folder / "config.json").string()), find_model("deepseek r1"));
  CHECK_THROWS_AS(read_hf_config(folder / "absent.json"), InputError);
}

TEST_CASE("missing keys are named, not guessed") {
  for (const char* key :
       {"num_hidden_layers", "hidden_size", "vocab_size", "n_routed_experts", "num_experts_per_tok",
        "moe_intermediate_size", "n_shared_experts", "intermediate_size", "num_attention_heads", "q_lora_rank",
        "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "n_group", "topk_group", "model_type"}) {
    check_refused(without(deepseek_r1(), key), key, "required and missing");
  }
  check_refused(without(deepseek_v32(), "index_topk"), "index_topk", "required and missing");
  check_refused(without(changed(deepseek_r1(), "model_type", "kimi_k2"), "first_k_dense_replace"),
                "first_k_dense_replace", "required and missing");
  check_refused(without(qwen3_next(), "linear_key_head_dim"), "linear_key_head_dim", "required and missing");
  check_refused(without(qwen3(48, 2048, 32, 768), "num_key_value_heads"), "num_key_value_heads",
                "required and missing");
  json nested = llama4();
  nested["text_config"].erase("hidden_size");
  check_refused(nested, "text_config.hidden_size", "required and missing");
}

TEST_CASE("wrong types and impossible numbers are refused") {
  const json good = deepseek_r1();
  check_refused(changed(good, "hidden_size", "7168"), "hidden_size", "not a whole number");
  check_refused(changed(good, "hidden_size", 7168.5), "hidden_size", "not a whole number");
  check_refused(changed(good, "hidden_size", -1), "hidden_size", "must be in 1..");
  check_refused(changed(good, "num_hidden_layers", 1e6), "num_hidden_layers", "not a whole number");
  check_refused(changed(good, "num_hidden_layers", 1000000), "num_hidden_layers", "must be in 1..10000");
  check_refused(changed(good, "hidden_size", 18446744073709551615ULL), "hidden_size", "must be in 1..");
  check_refused(changed(good, "n_routed_experts", nullptr), "n_routed_experts", "not a whole number");
  check_refused(changed(good, "tie_word_embeddings", "no"), "tie_word_embeddings", "not true or false");
  check_refused(changed(good, "torch_dtype", "int3"), "torch_dtype", "int3");
  check_refused(changed(good, "torch_dtype", 16), "torch_dtype", "not a word");
  check_refused(changed(good, "model_type", 3), "model_type", "not a word");
  check_refused(changed(good, "first_k_dense_replace", 61), "num_hidden_layers", "none of the layers");
  check_refused(changed(good, "text_config", json::array({1})), "text_config", "object");
  // Figures that fit no model are found by MoeSpec::validate: 9 groups do not divide 256 experts.
  CHECK_THROWS_AS(parsed(changed(good, "n_group", 9)), InputError);
  CHECK_THROWS_AS(parsed(changed(good, "num_experts_per_tok", 257)), InputError);
}

TEST_CASE("broken JSON ends with the line") {
  const std::string text = deepseek_r1().dump(2);
  try {
    parse_hf_config(text.substr(0, text.size() / 2), "cut.json");
    FAIL("half a file was accepted");
  } catch (const InputError& e) {
    CHECK(e.place.file == "cut.json");
    CHECK(e.place.line > 5);
    CHECK(e.problem.find("not valid JSON") != std::string::npos);
  }
  for (const char* bad : {"", "{", "[1, 2]", "17", "{\"model_type\": }", "\x80\x81", "{} {}"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_hf_config(bad, "bad.json"), InputError);
  }
}

TEST_CASE("any cut of a config is refused") {
  const std::string text = deepseek_r1().dump();
  for (std::size_t n = 0; n < text.size(); ++n) {
    CHECK_THROWS_AS(parse_hf_config(text.substr(0, n), "cut.json"), InputError);
  }
}

TEST_CASE("a text model inside a model of images") {
  json vl = nested("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", qwen3(94, 4096, 64, 1536));
  vl["text_config"]["model_type"] = "qwen3_vl_moe_text";
  check_same(parsed(vl), find_model("Qwen3-235B-A22B"));
  vl["architectures"] = {"Qwen3MoeForCausalLM"};
  check_refused(vl, "architectures", "Qwen3VLMoe");
  json kimi = kimi_k25(deepseek_r1());
  kimi["text_config"]["architectures"] = {"LlamaForCausalLM"};
  check_refused(kimi, "text_config.architectures", "LlamaForCausalLM");
  json qwen = qwen3_5();
  qwen["text_config"]["mamba_ssm_dtype"] = "bfloat16";
  check_refused(qwen, "text_config.mamba_ssm_dtype", "float32");
  check_refused(changed(qwen3_coder(), "shared_expert_intermediate_size", 512), "shared_expert_intermediate_size",
                "512");
}

TEST_CASE("a text model belongs to the model of images around it") {
  const auto refused = [](json config, const char* text, const std::string& word) {
    config["text_config"]["model_type"] = text;
    check_refused(config, "text_config.model_type", word);
  };
  refused(llama4(), "qwen3_moe", "is 'qwen3_moe' inside a model_type 'llama4', which holds llama4_text");
  refused(llama4(), "llama4", "which holds llama4_text");
  refused(qwen3_5(), "qwen3_vl_moe_text", "which holds qwen3_5_moe_text");
  refused(kimi_k25(deepseek_r1()), "deepseek_v2", "which holds kimi_k2 or deepseek_v3");
  refused(qwen3_5(), "nobodys", "is 'nobodys' inside");
  check_refused(changed(deepseek_r1(), "text_config", deepseek_r1()), "text_config", "'deepseek_v3' holds no other");
  // nvidia's Kimi-K2.5 and later call the text model deepseek_v3; one that has no name is the wrapper's.
  check_same(parsed(kimi_k25(deepseek_r1())), parsed(changed(deepseek_r1(), "quantization_config", int4_of_experts())));
  json unnamed = qwen3_5();
  unnamed["text_config"].erase("model_type");
  check_same(parsed(unnamed), find_model("Qwen3.5-397B-A17B"));
}

// Figures of Qwen/Qwen3-VL-8B-Instruct, Qwen/Qwen3.5-27B and XiaomiMiMo/MiMo-7B-Base.
TEST_CASE("dense models, alone and inside models of images") {
  json vl = dense("qwen3_vl_text", 36, 4096, 12288, 151936, 32, 8);
  vl["head_dim"] = 128;
  check_same(parsed(nested("qwen3_vl", "Qwen3VLForConditionalGeneration", vl)), find_model("Qwen3-8B"));
  json hybrid = qwen3_next();
  for (const char* key : {"num_experts", "num_experts_per_tok", "moe_intermediate_size",
                          "shared_expert_intermediate_size", "decoder_sparse_step"}) {
    hybrid.erase(key);
  }
  hybrid.update({{"model_type", "qwen3_5_text"},
                 {"num_hidden_layers", 64},
                 {"hidden_size", 5120},
                 {"intermediate_size", 17408},
                 {"num_attention_heads", 24},
                 {"num_key_value_heads", 4},
                 {"linear_num_value_heads", 48},
                 {"mtp_num_hidden_layers", 1}});
  const MoeSpec qwen = parsed(nested("qwen3_5", "Qwen3_5ForConditionalGeneration", hybrid));
  CHECK(qwen.dense());
  CHECK(qwen.mtp_layers == 1);
  CHECK(qwen.layers_of(AttentionReach::kLinear) == 48);
  CHECK(qwen.layers_of(AttentionReach::kFull) == 16);
  CHECK(qwen.kv_bytes_per_token(1).count() == 16 * 2 * 4 * 256 * 2);
  CHECK(qwen.dense_ffn_bytes().count() == 3.0 * 5120 * 17408 * 2);
  json mimo = dense("mimo", 36, 4096, 11008, 151680, 32, 8);
  mimo.update({{"head_dim", 128},
               {"sliding_window", 32768},
               {"use_sliding_window", false},
               {"max_window_layers", 32},
               {"use_mrope", false},
               {"architectures", {"MiMoForCausalLM"}},
               {"num_nextn_predict_layers", 1}});
  CHECK(parsed(mimo).dense());
  CHECK(parsed(mimo).mtp_layers == 1);
  CHECK(parsed(mimo).dense_ffn_bytes().count() == 3.0 * 4096 * 11008 * 2);
  CHECK(parsed(mimo).kv_bytes_per_token(1).count() == 36 * 2 * 8 * 128 * 2);
}

TEST_CASE("which layers have experts") {
  json qwen = qwen3(8, 2048, 32, 768);
  qwen["decoder_sparse_step"] = 2;  // (layer + 1) divisible by 2: 1, 3, 5, 7
  CHECK(parsed(qwen).moe_layer_numbers() == std::vector<int>{1, 3, 5, 7});
  CHECK(parsed(qwen).dense_intermediate == 3072);
  qwen["decoder_sparse_step"] = 1;
  qwen["mlp_only_layers"] = {0, 1};
  CHECK(parsed(qwen).moe_layer_numbers() == std::vector<int>{2, 3, 4, 5, 6, 7});
  CHECK(parsed(qwen).first_dense_layers == 2);
  qwen["mlp_only_layers"] = {3};  // a hole: not a shape that MoeSpec knows
  check_refused(qwen, "num_hidden_layers", "supported are");
  qwen["mlp_only_layers"] = {"a"};
  check_refused(qwen, "mlp_only_layers", "not a layer number");
  json llama = llama4();
  llama["text_config"]["moe_layers"] = {1, 3, 5};
  check_refused(llama, "text_config.num_hidden_layers", "supported are");
}

TEST_CASE("defaults that the formats themselves define") {
  // head_dim = hidden / heads; null KV heads = one per head; null shared experts, groups = none.
  json config = mixtral(32, 4096, 14336, 32);
  CHECK(parsed(config).attention.head_dim == 128);
  config["num_key_value_heads"] = nullptr;
  CHECK(parsed(config).attention.kv_heads == 32);
  config["num_attention_heads"] = 31;
  check_refused(config, "head_dim", "does not divide");
  json deepseek = deepseek_r1();
  deepseek["n_shared_experts"] = nullptr;
  deepseek["n_group"] = nullptr;
  deepseek["topk_group"] = nullptr;
  CHECK(parsed(deepseek).shared_intermediate == 0);
  CHECK(parsed(deepseek).expert_groups == 1);
  CHECK(parsed(changed(deepseek_r1(), "topk_method", "greedy")).expert_groups == 1);
}

// Defaults of transformers v4.57: configuration_deepseek_v3.py (first_k_dense_replace 3), configuration_deepseek_v2.py
// (0), configuration_glm4_moe.py (1), configuration_qwen3_moe.py (decoder_sparse_step 1), and false for
// tie_word_embeddings in all of them.
TEST_CASE("what a config leaves out has its model_type's default") {
  const auto bare = [](json config) {
    config.erase("first_k_dense_replace");
    config.erase("tie_word_embeddings");
    config.erase("torch_dtype");
    config["dtype"] = "bfloat16";
    return config;
  };
  check_same(parsed(bare(deepseek_r1())), find_model("DeepSeek-R1"));
  CHECK(parsed(bare(changed(deepseek_r1(), "model_type", "deepseek_v2"))).first_dense_layers == 0);
  CHECK(parsed(bare(glm())).first_dense_layers == 1);
  CHECK(parsed(bare(glm())).dense_intermediate == 12288);
  check_same(parsed(bare(without(qwen3(48, 2048, 32, 768), "decoder_sparse_step"))), find_model("Qwen3-30B-A3B"));
  check_same(parsed(without(qwen3_next(), "full_attention_interval")), find_model("Qwen3-Next"));
  json scout = llama4(16, 1);
  for (const char* key : {"interleave_moe_layer_step", "attention_chunk_size", "torch_dtype"}) {
    scout["text_config"].erase(key);
  }
  scout["dtype"] = "bfloat16";
  check_same(parsed(scout), find_model("Llama-4-Scout"));
}

TEST_CASE("a key that nobody understands is refused by name") {
  check_refused(changed(deepseek_r1(), "foo_bar", 1), "foo_bar", "unknown key 'foo_bar'");
  check_refused(changed(deepseek_r1(), "foo_bar", 1), "foo_bar", "Remove what changes none of them");
  check_refused(changed(changed(deepseek_r1(), "b", 1), "a", 2), "a", "unknown keys 'a', 'b'");
  // Sparse attention in a model_type that has none: R1's figures would be wrong for it.
  check_refused(changed(deepseek_r1(), "index_topk", 2048), "index_topk", "unknown key");
  check_refused(changed(qwen3(48, 2048, 32, 768), "full_attention_interval", 4), "full_attention_interval",
                "unknown key");
  check_refused(changed(mixtral(32, 4096, 14336, 32), "experts_per_token", 2), "experts_per_token", "unknown key");
  check_refused(changed(deepseek_r1(), "sliding_window", 4096), "sliding_window", "unknown key");
  json nested = llama4();
  nested["text_config"]["foo"] = true;
  check_refused(nested, "text_config.foo", "unknown key");
  // What says nothing passes: null, and the harmless keys.
  json harmless = changed(deepseek_r1(), "foo_bar", nullptr);
  harmless.update(
      {{"rope_theta", 10000}, {"transformers_version", "4.57.1"}, {"bos_token_id", 0}, {"use_cache", true}});
  check_same(parsed(harmless), find_model("DeepSeek-R1"));
}

TEST_CASE("a model_type or architecture that is not known is refused by name") {
  check_refused(changed(deepseek_r1(), "model_type", "deepseek_v9"), "model_type", "'deepseek_v9' is not a model_type");
  check_refused(changed(deepseek_r1(), "model_type", "deepseek_v9"), "model_type", "deepseek_v32, kimi_k2");
  check_refused(changed(deepseek_r1(), "architectures", {"DeepseekV32ForCausalLM"}), "architectures",
                "holds DeepseekV32ForCausalLM");
  check_refused(changed(llama4(), "model_type", "llama9"), "model_type", "'llama9'");
  CHECK(parsed(changed(deepseek_r1(), "architectures", {"DeepseekV3ForCausalLM"})).layers == 61);
}

TEST_CASE("which layers attend to what") {
  const auto layers = [](const json& config, AttentionReach reach) { return parsed(config).layers_of(reach); };
  // By layer_types, in any family; by its own rule otherwise.
  json types = json::array();
  for (int l = 0; l < 48; ++l) {
    types.push_back(l % 6 == 5 ? "full_attention" : "sliding_attention");
  }
  json windows = changed(qwen3(48, 2048, 32, 768), "layer_types", types);
  check_refused(windows, "sliding_window", "required and missing");
  windows["sliding_window"] = 1024;
  CHECK(layers(windows, AttentionReach::kFull) == 8);
  CHECK(parsed(windows).kv_bytes_per_token(1).count() == 8 * 2 * 4 * 128 * 2);
  CHECK(parsed(windows).kv_bytes_per_sequence(1).count() == 40.0 * 1024 * 2 * 4 * 128 * 2);
  windows["layer_types"][0] = "lightning_attention";
  check_refused(windows, "layer_types", "lightning_attention");
  windows["layer_types"] = {"full_attention"};
  check_refused(windows, "layer_types", "names 1 layers");
  // A window that is switched off, as Qwen's configs have it; one that is on without layers to go with it.
  json qwen = qwen3(48, 2048, 32, 768);
  qwen.update({{"use_sliding_window", false}, {"sliding_window", 32768}, {"max_window_layers", 28}});
  CHECK(layers(qwen, AttentionReach::kFull) == 48);
  qwen["use_sliding_window"] = true;
  check_refused(qwen, "use_sliding_window", "layer_types");
  CHECK(layers(changed(mixtral(32, 4096, 14336, 32), "sliding_window", 4096), AttentionReach::kSliding) == 32);
  CHECK(layers(changed(mixtral(32, 4096, 14336, 32), "sliding_window", nullptr), AttentionReach::kFull) == 32);
  check_refused(changed(minimax(), "attn_type_list", {0, 1}), "attn_type_list", "softmax attention");
  // Llama 4: layers with rotary embedding attend in chunks; the list says which, else all but every fourth.
  json llama = llama4();
  CHECK(layers(llama, AttentionReach::kChunked) == 36);
  llama["text_config"]["no_rope_layer_interval"] = 2;
  CHECK(layers(llama, AttentionReach::kChunked) == 24);
  llama["text_config"]["no_rope_layers"] = std::vector<int>(48, 1);
  CHECK(layers(llama, AttentionReach::kChunked) == 48);
  llama["text_config"]["attention_chunk_size"] = nullptr;
  CHECK(layers(llama, AttentionReach::kFull) == 48);
}
