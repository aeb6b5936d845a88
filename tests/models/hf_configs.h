// The config.json of every model of the catalogue, as far as its keys say something of it, and parts to make others of.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/domain/moe_spec.h"

namespace epsim::test {

nlohmann::json deepseek_r1();
nlohmann::json mixtral(int layers, int hidden, int width, int heads);
nlohmann::json qwen3(int layers, int hidden, int heads, int width);
nlohmann::json llama4(int experts = 128, int step = 2);
nlohmann::json glm();
nlohmann::json deepseek_v32();
nlohmann::json minimax();
nlohmann::json qwen3_next();
nlohmann::json nested(const char* type, const char* architecture, nlohmann::json text);
nlohmann::json qwen3_5();
nlohmann::json qwen3_coder();
nlohmann::json dense(const char* type, int layers, int hidden, int width, int vocab, int heads, int kv_heads);
nlohmann::json int4_of_experts();
nlohmann::json kimi_k25(nlohmann::json text);

struct KnownConfig {
  const char* name;  // in the catalogue
  nlohmann::json config;
};
std::vector<KnownConfig> known_configs();

// Read as some-model/config.json.
MoeSpec parsed(const nlohmann::json& config);
// Expects an InputError at `key` of that file whose text holds `word`.
void check_refused(const nlohmann::json& config, const std::string& key, const std::string& word);
nlohmann::json changed(nlohmann::json config, const std::string& key, const nlohmann::json& value);
nlohmann::json without(nlohmann::json config, const std::string& key);

}  // namespace epsim::test
