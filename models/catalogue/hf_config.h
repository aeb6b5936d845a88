// A model's shape from the config.json that Hugging Face repositories ship.
//   Knows  : deepseek_v2, deepseek_v3, deepseek_v32, kimi_k2, glm4_moe, glm_moe_dsa, qwen2_moe, qwen3_moe,
//            qwen3_next, olmoe, mixtral, minimax_m2, gpt_oss; dense: llama, mistral, qwen2, qwen3, mimo; nested in
//            text_config: kimi_k25, qwen3_vl, qwen3_vl_moe, qwen3_5, qwen3_5_moe, llama4. Another model_type, another
//            class in `architectures`, or a text model of another family, is refused by name.
//   Types  : of weights and cache, from quantization_config or a hf_quant_config.json: hf_quantisation.h.
//   Strict : a missing key, a wrong type or an impossible number is an InputError with file and key. So is a key that
//            is neither read nor in the list of harmless ones: it might change weights, attention or cache. What a
//            config may leave out has the default that transformers gives it for its model_type.
//   Ignores: multi-token-prediction layers, vision towers, the router's scoring.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/domain/moe_spec.h"

namespace epsim {

// The model is called like the file's folder when the file is config.json, else like the file.
// A config.json without quantization_config takes it from ModelOpt's file beside it.
MoeSpec read_hf_config(const std::filesystem::path& file);
// The hf_quant_config.json beside a config.json, where there is one.
std::optional<std::filesystem::path> hf_quantisation_beside(const std::filesystem::path& file);
// The same as read_hf_config() from text; `file` stands for it in messages.
MoeSpec parse_hf_config(const std::string& text, const std::filesystem::path& file,
                        const std::optional<std::filesystem::path>& beside = {});

}  // namespace epsim
