// The config.json of every model of the catalogue, as far as its keys say something of it, and parts to make others of.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

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
nlohmann::json int4_of_experts();
nlohmann::json kimi_k25(nlohmann::json text);

struct KnownConfig {
  const char* name;  // in the catalogue
  nlohmann::json config;
};
std::vector<KnownConfig> known_configs();

}  // namespace epsim::test
