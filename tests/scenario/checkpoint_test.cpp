// What a scenario takes from a checkpoint's config.json and what it states itself.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/scenario/read_scenario.h"
#include "tests/support/paths.h"
#include "tests/support/small_scenario.h"

namespace epsim {
using test::small;

TEST_CASE("types of weights and cache are the checkpoint's unless the scenario states them") {
  const test::TempDir folder;
  const std::string config = (folder / "config.json").string(), beside = (folder / "hf_quant_config.json").string();
  std::ofstream(config) << R"({"model_type": "olmoe", "hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 50304,
    "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
    "intermediate_size": 1024})";
  std::ofstream(beside) << R"({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
    "exclude_modules": ["lm_head"]}})";
  const auto with = [&](const std::string& more) {
    return small({fmt::format("model={{architecture: \"{}\"{}}}", config, more), "cluster.node=DGX-H200"});
  };
  const Scenario own = with("");
  CHECK(own.model.dtype == WeightType::kFp8);
  CHECK(own.model.bytes_per_kv == 1);
  CHECK(std::any_of(own.input_files.begin(), own.input_files.end(), [&](const auto& f) { return f == beside; }));
  CHECK(with(", kv_dtype: bf16").model.bytes_per_kv == 2);
  CHECK(with(", kv_dtype: bf16").model.dtype == WeightType::kFp8);
  CHECK(with(", dtype: bf16").model.dtype == WeightType::kBf16);
  const Scenario again = read_scenario(Config::from_text(own.resolved, "resolved.yaml"), {});
  CHECK(again.model.bytes_per_kv == 1);
  // Without that file: bf16, and no input.
  std::filesystem::remove(beside);
  CHECK(with("").model.dtype == WeightType::kBf16);
  CHECK(with("").model.bytes_per_kv == 2);
  CHECK(with("").input_files.size() + 1 == own.input_files.size());
}

}  // namespace epsim
