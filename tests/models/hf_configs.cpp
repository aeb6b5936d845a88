#include "tests/models/hf_configs.h"

#include <doctest/doctest.h>

#include <string_view>
#include <utility>

#include "models/catalogue/hf_config.h"
#include "sim/core/error.h"

using nlohmann::json;

namespace epsim::test {
namespace {

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

}  // namespace

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
json llama4(int experts, int step) {
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
// A dense model with grouped-query attention.
json dense(const char* type, int layers, int hidden, int width, int vocab, int heads, int kv_heads) {
  json config = with_gqa(common(type, layers, hidden, vocab), heads, kv_heads);
  config["intermediate_size"] = width;
  if (std::string_view(type).starts_with("qwen")) {
    config.update({{"use_sliding_window", false}, {"sliding_window", nullptr}, {"max_window_layers", layers}});
  }
  return config;
}
// What Kimi-K2.5 says of its experts; attention, shared experts and dense layers stay in bf16.
json int4_of_experts() {
  const json four_bits = {{"num_bits", 4}, {"type", "int"}, {"group_size", 32}, {"symmetric", true}};
  return {
      {"quant_method", "compressed-tensors"},
      {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", four_bits}}}}},
      {"ignore", {"lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"}}};
}
json kimi_k25(json text) {
  text.update({{"architectures", {"DeepseekV3ForCausalLM"}}, {"quantization_config", int4_of_experts()}});
  return nested("kimi_k25", "KimiK25ForConditionalGeneration", text);
}

namespace {

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
json with_head_dim(json config, int head_dim) {
  config["head_dim"] = head_dim;
  return config;
}

}  // namespace

std::vector<KnownConfig> known_configs() {
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
          {"Qwen3-Next-80B-A3B", qwen3_next()},
          {"Llama-2-7B", dense("llama", 32, 4096, 11008, 32000, 32, 32)},
          {"Llama-2-70B", dense("llama", 80, 8192, 28672, 32000, 64, 8)},
          {"Llama-3.1-8B", dense("llama", 32, 4096, 14336, 128256, 32, 8)},
          {"Llama-3.1-70B", dense("llama", 80, 8192, 28672, 128256, 64, 8)},
          {"Llama-3.1-405B", dense("llama", 126, 16384, 53248, 128256, 128, 8)},
          {"CodeLlama-34B", dense("llama", 48, 8192, 22016, 32000, 64, 8)},
          {"Yi-34B", dense("llama", 60, 7168, 20480, 64000, 56, 8)},
          {"Mistral-Nemo-12B", with_head_dim(dense("mistral", 40, 5120, 14336, 131072, 32, 8), 128)},
          {"Qwen2.5-7B", dense("qwen2", 28, 3584, 18944, 152064, 28, 4)},
          {"Qwen3-8B", with_head_dim(dense("qwen3", 36, 4096, 12288, 151936, 32, 8), 128)},
          {"Qwen3-14B", with_head_dim(dense("qwen3", 40, 5120, 17408, 151936, 40, 8), 128)},
          {"Qwen3-32B", with_head_dim(dense("qwen3", 64, 5120, 25600, 151936, 64, 8), 128)}};
}

MoeSpec parsed(const json& config) { return parse_hf_config(config.dump(2), "some-model/config.json"); }

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

}  // namespace epsim::test
