// A model's shape from the config.json that Hugging Face repositories ship.
//   Knows  : deepseek_v2, deepseek_v3, kimi_k2, glm4_moe, qwen2_moe, qwen3_moe, olmoe, mixtral, gpt_oss, llama4 (nested
//            text_config). Another model_type is read by the same keys where they leave no doubt.
//   Ignores: multi-token-prediction layers, sliding and chunked attention windows, the router's scoring.
//   Strict : a missing key, a wrong type or an impossible number is an InputError with file and key; nothing is
//            guessed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/domain/moe_spec.h"

namespace epsim {

struct HfOptions {
  // Instead of what torch_dtype and quantization_config say. Needed where only a part of the weights is quantised.
  std::optional<double> bytes_per_weight;
};

// The model is called like the file's folder when the file is config.json, else like the file.
MoeSpec read_hf_config(const std::filesystem::path& file, const HfOptions& options = {});
// The same from text; `file` stands for it in messages.
MoeSpec parse_hf_config(const std::string& text, const std::filesystem::path& file, const HfOptions& options = {});

}  // namespace epsim
