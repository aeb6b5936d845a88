#include "models/catalogue/hf_config.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/catalogue/model_catalogue.h"
#include "sim/core/error.h"
#include "tests/support/paths.h"

using namespace epsim;
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

// What all configs say alike.
json common(const char* type, int layers, int hidden, int vocab) {
  return {{"model_type", type},  {"num_hidden_layers", layers}, {"hidden_size", hidden},
          {"vocab_size", vocab}, {"torch_dtype", "bfloat16"},   {"tie_word_embeddings", false}};
}
json with_mla(json config, int heads, const json& q_lora_rank) {
  config.update({{"num_attention_heads", heads},
                 {"num_key_value_heads", heads},
                 {"q_lora_rank", q_lora_rank},
                 {"kv_lora_rank", 512},
                 {"qk_nope_head_dim", 128},
                 {"qk_rope_head_dim", 64},
                 {"v_head_dim", 128}});
  return config;
}
json with_gqa(json config, int heads, int kv_heads) {
  config.update({{"num_attention_heads", heads}, {"num_key_value_heads", kv_heads}});
  return config;
}
json with_deepseek_experts(json config, int dense, int dense_width, int experts, int top_k, int width, int shared,
                           int groups, int top_groups) {
  config.update({{"first_k_dense_replace", dense},
                 {"intermediate_size", dense_width},
                 {"n_routed_experts", experts},
                 {"num_experts_per_tok", top_k},
                 {"moe_intermediate_size", width},
                 {"n_shared_experts", shared},
                 {"n_group", groups},
                 {"topk_group", top_groups}});
  return config;
}

json deepseek_r1() {
  json config = with_mla(common("deepseek_v3", 61, 7168, 129280), 128, 1536);
  config["num_nextn_predict_layers"] = 1;  // not a layer of the forward pass
  config["moe_layer_freq"] = 1;
  return with_deepseek_experts(config, 3, 18432, 256, 8, 2048, 1, 8, 4);
}
json mixtral(int layers, int hidden, int width, int heads) {
  json config = with_gqa(common("mixtral", layers, hidden, 32000), heads, 8);
  config.update({{"num_local_experts", 8}, {"num_experts_per_tok", 2}, {"intermediate_size", width}});
  return config;
}
json qwen3(int layers, int hidden, int heads, int width) {
  json config = with_gqa(common("qwen3_moe", layers, hidden, 151936), heads, 4);
  config.update({{"head_dim", 128},
                 {"num_experts", 128},
                 {"num_experts_per_tok", 8},
                 {"moe_intermediate_size", width},
                 {"intermediate_size", 4 * width},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", json::array()}});
  return config;
}
json llama4(int experts = 128, int step = 2) {
  json text = with_gqa(common("llama4_text", 48, 5120, 202048), 40, 8);
  text.erase("tie_word_embeddings");
  text.update({{"head_dim", 128},
               {"num_local_experts", experts},
               {"num_experts_per_tok", 1},
               {"intermediate_size", 8192},
               {"intermediate_size_mlp", 16384},
               {"attention_chunk_size", 8192},
               {"interleave_moe_layer_step", step}});
  return {{"model_type", "llama4"},
          {"architectures", {"Llama4ForConditionalGeneration"}},
          {"tie_word_embeddings", false},
          {"text_config", text},
          {"vision_config", json::object()}};
}

json glm() {
  json config =
      with_deepseek_experts(with_gqa(common("glm4_moe", 92, 5120, 151552), 96, 8), 3, 12288, 160, 8, 1536, 1, 1, 1);
  config["head_dim"] = 128;
  return config;
}
json deepseek_v32() {
  json config = deepseek_r1();
  config.update({{"model_type", "deepseek_v32"},
                 {"architectures", {"DeepseekV32ForCausalLM"}},
                 {"index_n_heads", 64},
                 {"index_head_dim", 128},
                 {"index_topk", 2048}});
  return config;
}
json minimax() {
  json config = with_gqa(common("minimax_m2", 62, 3072, 200064), 48, 8);
  config.update({{"head_dim", 128},
                 {"num_local_experts", 256},
                 {"num_experts_per_tok", 8},
                 {"intermediate_size", 1536},
                 {"mlp_intermediate_size", 8192},
                 {"shared_intermediate_size", 0},
                 {"sliding_window", nullptr},
                 {"attn_type_list", std::vector<int>(62, 1)},
                 {"num_mtp_modules", 3},
                 {"use_mtp", true}});
  return config;
}
json qwen3_next() {
  json config = with_gqa(common("qwen3_next", 48, 2048, 151936), 16, 2);
  config.update({{"head_dim", 256},
                 {"num_experts", 512},
                 {"num_experts_per_tok", 10},
                 {"moe_intermediate_size", 512},
                 {"shared_expert_intermediate_size", 512},
                 {"intermediate_size", 5120},
                 {"decoder_sparse_step", 1},
                 {"mlp_only_layers", json::array()},
                 {"full_attention_interval", 4},
                 {"linear_conv_kernel_dim", 4},
                 {"linear_key_head_dim", 128},
                 {"linear_value_head_dim", 128},
                 {"linear_num_key_heads", 16},
                 {"linear_num_value_heads", 32},
                 {"use_sliding_window", false},
                 {"partial_rotary_factor", 0.25}});
  return config;
}

// In text_config, beside a vision tower.
json nested(const char* type, const char* architecture, json text) {
  json out = {{"model_type", type},
              {"architectures", {architecture}},
              {"tie_word_embeddings", text["tie_word_embeddings"]},
              {"vision_config", json::object()}};
  text.erase("tie_word_embeddings");
  out["text_config"] = std::move(text);
  return out;
}
json qwen3_5() {
  json text = qwen3_next();
  text.erase("intermediate_size");
  text.update({{"model_type", "qwen3_5_moe_text"},
               {"num_hidden_layers", 60},
               {"hidden_size", 4096},
               {"vocab_size", 248320},
               {"num_attention_heads", 32},
               {"moe_intermediate_size", 1024},
               {"shared_expert_intermediate_size", 1024},
               {"linear_num_value_heads", 64},
               {"attn_output_gate", true},
               {"mamba_ssm_dtype", "float32"},
               {"mtp_num_hidden_layers", 1}});
  return nested("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", text);
}
json qwen3_coder() {
  json config = qwen3(62, 6144, 96, 2560);
  config.update({{"num_key_value_heads", 8}, {"num_experts", 160}, {"shared_expert_intermediate_size", 0}});
  return config;
}
json glm_5() {
  json config = with_deepseek_experts(with_mla(common("glm_moe_dsa", 78, 6144, 154880), 64, 2048), 3, 12288, 256, 8,
                                      2048, 1, 1, 1);
  config.update({{"architectures", {"GlmMoeDsaForCausalLM"}},
                 {"head_dim", 64},
                 {"qk_head_dim", 256},
                 {"qk_nope_head_dim", 192},
                 {"v_head_dim", 256},
                 {"index_n_heads", 32},
                 {"index_head_dim", 128},
                 {"index_topk", 2048},
                 {"indexer_rope_interleave", true}});
  return config;
}
json gpt_oss(int layers, int experts) {
  json config = with_gqa(common("gpt_oss", layers, 2880, 201088), 64, 8);
  config.erase("torch_dtype");
  config.update({{"head_dim", 64},
                 {"num_local_experts", experts},
                 {"num_experts_per_tok", 4},
                 {"intermediate_size", 2880},
                 {"sliding_window", 128},
                 {"quantization_config", {{"quant_method", "mxfp4"}}}});
  return config;
}
// What Kimi-K2.5 says of its experts; attention, shared experts and dense layers stay in bf16.
json int4_of_experts() {
  const json four_bits = {{"num_bits", 4}, {"type", "int"}, {"group_size", 32}, {"symmetric", true}};
  return {{"quant_method", "compressed-tensors"},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", four_bits}}}}},
          {"ignore", {"lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up)_proj.*"}}};
}
json kimi_k25(json text) {
  text.update({{"architectures", {"DeepseekV3ForCausalLM"}}, {"quantization_config", int4_of_experts()}});
  return nested("kimi_k25", "KimiK25ForConditionalGeneration", text);
}

struct Known {
  const char* name;  // in the catalogue
  json config;
};
std::vector<Known> known_configs() {
  json v2 = with_deepseek_experts(with_mla(common("deepseek_v2", 60, 5120, 102400), 128, 1536), 1, 12288, 160, 6, 1536,
                                  2, 8, 3);
  json lite = with_deepseek_experts(with_mla(common("deepseek_v2", 27, 2048, 102400), 16, nullptr), 1, 10944, 64, 6,
                                    1408, 2, 1, 1);
  json kimi =
      with_deepseek_experts(with_mla(common("kimi_k2", 61, 7168, 163840), 64, 1536), 1, 18432, 384, 8, 2048, 1, 1, 1);
  json olmoe = with_gqa(common("olmoe", 16, 2048, 50304), 16, 16);
  olmoe.update({{"num_experts", 64}, {"num_experts_per_tok", 8}, {"intermediate_size", 1024}});
  json qwen2 = with_gqa(common("qwen2_moe", 28, 3584, 151936), 28, 4);
  qwen2.update({{"num_experts", 64},
                {"num_experts_per_tok", 8},
                {"moe_intermediate_size", 2560},
                {"shared_expert_intermediate_size", 20480},
                {"intermediate_size", 18944},
                {"decoder_sparse_step", 1}});
  return {{"DeepSeek-R1", deepseek_r1()},
          {"Kimi-K2", kimi},
          {"DeepSeek-V2", v2},
          {"DeepSeek-V2-Lite", lite},
          {"Qwen3-235B-A22B", qwen3(94, 4096, 64, 1536)},
          {"Qwen3-30B-A3B", qwen3(48, 2048, 32, 768)},
          {"GLM-4.5", glm()},
          {"OLMoE-1B-7B", olmoe},
          {"Qwen2-57B-A14B", qwen2},
          {"Mixtral-8x7B", mixtral(32, 4096, 14336, 32)},
          {"Mixtral-8x22B", mixtral(56, 6144, 16384, 48)},
          {"gpt-oss-120b", gpt_oss(36, 128)},
          {"gpt-oss-20b", gpt_oss(24, 32)},
          {"Kimi-K2.5", kimi_k25(kimi)},
          {"GLM-5", glm_5()},
          {"Qwen3.5-397B-A17B", qwen3_5()},
          {"Qwen3-Coder-480B-A35B", qwen3_coder()},
          {"Llama-4-Maverick", llama4()},
          {"Llama-4-Scout", llama4(16, 1)},
          {"GLM-4.6", glm()},
          {"DeepSeek-V3.2", deepseek_v32()},
          {"MiniMax-M2", minimax()},
          {"Qwen3-Next-80B-A3B", qwen3_next()}};
}

MoeSpec parsed(const json& config) { return parse_hf_config(config.dump(2), "some-model/config.json"); }

// Expects an InputError at `key` whose text holds `word`.
void check_refused(const json& config, const std::string& key, const std::string& word) {
  CAPTURE(key);
  try {
    parsed(config);
    FAIL("accepted, although it should complain about " << key);
  } catch (const InputError& e) {
    CHECK(e.place.file == "some-model/config.json");
    CHECK(e.place.key == key);
    CHECK_MESSAGE(e.problem.find(word) != std::string::npos, e.problem);
  }
}
json changed(json config, const std::string& key, const json& value) {
  config[key] = value;
  return config;
}
json without(json config, const std::string& key) {
  config.erase(key);
  return config;
}

}  // namespace

TEST_CASE("a config.json gives the model of the catalogue") {
  const std::vector<Known> all = known_configs();
  CHECK(all.size() == list_models().size());
  for (const Known& k : all) {
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

TEST_CASE("quantised weights") {
  json config = deepseek_r1();
  CHECK(parsed(config).dtype == WeightType::kBf16);
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  CHECK(parsed(config).dtype == WeightType::kFp8);
  config["quantization_config"]["quant_method"] = "mxfp4";
  CHECK(parsed(config).dtype == WeightType::kMxfp4);
  config["quantization_config"]["quant_method"] = "modelopt";
  check_refused(config, "quantization_config.quant_method", "modelopt");
  CHECK(parsed(changed(without(deepseek_r1(), "torch_dtype"), "dtype", "float16")).dtype == WeightType::kBf16);
  CHECK(parsed(without(deepseek_r1(), "torch_dtype")).dtype == WeightType::kBf16);
}

TEST_CASE("int4 is that of routed experts in groups of 32") {
  json config = deepseek_r1();
  json& q = config["quantization_config"];
  q = int4_of_experts();
  CHECK(parsed(config).dtype == WeightType::kInt4);
  for (const char* kept : {"re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up)_proj.*"}) {
    json fewer = config;
    json& ignore = fewer["quantization_config"]["ignore"];
    ignore.erase(std::find(ignore.begin(), ignore.end(), kept));
    check_refused(fewer, "quantization_config.quant_method", "compressed-tensors");
  }
  for (const auto& [key, value] :
       std::map<std::string, json>{{"num_bits", 8}, {"type", "float"}, {"group_size", 128}}) {
    json other = config;
    other["quantization_config"]["config_groups"]["group_0"]["weights"][key] = value;
    check_refused(other, "quantization_config.quant_method", "compressed-tensors");
  }
  // Groups of one channel; patterns of one layer, or that keep the routed experts; no patterns.
  const auto refused = [&](const std::function<void(json&)>& change) {
    json other = config;
    change(other["quantization_config"]);
    check_refused(other, "quantization_config.quant_method", "compressed-tensors");
  };
  refused([](json& r) { r["config_groups"]["group_0"]["weights"]["group_size"] = -1; });
  refused([](json& r) { r["ignore"][1] = "model.layers.0.self_attn"; });
  refused([](json& r) { r["ignore"].push_back("re:.*mlp.experts.*"); });
  refused([](json& r) { r.erase("ignore"); });
  refused([](json& r) { r.erase("config_groups"); });
  q["config_groups"]["group_1"] = q["config_groups"]["group_0"];
  check_refused(config, "quantization_config.quant_method", "compressed-tensors");
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
