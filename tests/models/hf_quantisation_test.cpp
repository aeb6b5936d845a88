#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/catalogue/hf_modules.h"
#include "models/catalogue/model_catalogue.h"
#include "sim/core/error.h"
#include "tests/models/hf_configs.h"
#include "tests/support/paths.h"

using namespace epsim;
using namespace epsim::test;
using nlohmann::json;

namespace {

json quantised(json config, const json& quantisation) {
  config["quantization_config"] = quantisation;
  return config;
}
json fp8(const json& kept) { return {{"quant_method", "fp8"}, {"modules_to_not_convert", kept}}; }

// As nvidia/DeepSeek-V3.1-NVFP4 names them: of each layer what makes queries, keys and values; the head; the layer of
// multi-token prediction, number 61.
json kept_by_deepseek_nvfp4() {
  json out = {"lm_head", "model.layers.61*"};
  for (int l = 0; l < 61; ++l) {
    for (const char* name : {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"}) {
      out.push_back(fmt::format("model.layers.{}.self_attn.{}", l, name));
    }
  }
  return out;
}
json modelopt(const json& ignore) {
  return {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"ignore", ignore}};
}
// compressed-tensors of one group, without what the lists leave out.
json compressed(int bits, const char* type, const json& group_size, const json& ignore, bool activations = true) {
  json group = {{"targets", {"Linear"}}, {"weights", {{"num_bits", bits}, {"type", type}, {"group_size", group_size}}}};
  group["input_activations"] = activations ? json({{"num_bits", bits}, {"dynamic", true}}) : json(nullptr);
  return {{"quant_method", "compressed-tensors"}, {"config_groups", {{"group_0", group}}}, {"ignore", ignore}};
}

void write(const std::filesystem::path& file, const json& content) { std::ofstream(file) << content.dump(); }

}  // namespace

TEST_CASE("fp8 with what is in bf16 in every type left out") {
  CHECK(parsed(deepseek_r1()).dtype == WeightType::kBf16);
  CHECK(parsed(quantised(deepseek_r1(), {{"quant_method", "fp8"}})).dtype == WeightType::kFp8);
  CHECK(parsed(changed(without(deepseek_r1(), "torch_dtype"), "dtype", "float16")).dtype == WeightType::kBf16);
  CHECK(parsed(without(deepseek_r1(), "torch_dtype")).dtype == WeightType::kBf16);
  // MiniMax-M2.5, Qwen3-FP8 and GLM-5-FP8 (78 is its layer of multi-token prediction).
  CHECK(parsed(quantised(minimax(), fp8({"gate", "e_score_correction_bias", "lm_head"}))).dtype == WeightType::kFp8);
  CHECK(parsed(quantised(qwen3(48, 2048, 32, 768),
                         fp8({"lm_head", "model.layers.0.input_layernorm", "model.layers.0.mlp.gate"})))
            .dtype == WeightType::kFp8);
  CHECK(
      parsed(quantised(deepseek_v32(),
                       fp8({"model.embed_tokens", "model.layers.61.eh_proj", "model.layers.61.self_attn.q_b_proj",
                            "model.layers.60.self_attn.indexer.k_norm.bias", "model.layers.60.self_attn.indexers_proj",
                            "model.norm", "mtp.layers.0*", "model.visual.blocks.0.mlp.linear_fc1"})))
          .dtype == WeightType::kFp8);
}

TEST_CASE("fp8 of a part of the model is not fp8") {
  const std::string key = "quantization_config.modules_to_not_convert";
  const auto refused = [&](const json& config, const json& kept, const std::string& word) {
    check_refused(quantised(config, fp8(kept)), key, word);
  };
  refused(deepseek_r1(), {"self_attn"}, "nearest, by attention in bf16, attention's output projection in bf16. Remove");
  refused(deepseek_r1(), {"model.layers.*.self_attn"}, "attention in bf16, attention's output projection in bf16. ");
  refused(deepseek_r1(), {"mlp.experts"}, "nearest, by routed experts in bf16. Remove");
  refused(deepseek_r1(), {"model.layers.60.mlp.experts.255.up_proj"},
          "nearest, by routed experts partly in fp8. Remove");
  refused(deepseek_r1(), {"re:.*shared_experts.*"},
          "nearest, by dense layers and shared experts partly in fp8. Remove");
  refused(deepseek_r1(), {"model.layers.0"},
          "attention partly in fp8, attention's output projection partly in fp8, "
          "dense layers and shared experts partly in fp8. Remove");
  refused(deepseek_r1(), {"model.layers.1*"}, "routed experts partly in fp8");  // 1 and 10 to 19
  refused(mixtral(32, 4096, 14336, 32), {"block_sparse_moe.experts"}, "nearest, by routed experts in bf16. Remove");
  refused(qwen3_next(), {"linear_attn"}, "nearest, by attention partly in fp8. Remove");  // 36 of 48 layers
  refused(llama4(), {"re:.*self_attn.*"}, "attention in bf16");
  refused(dense("llama", 32, 4096, 14336, 128256, 32, 8), {"mlp"},
          "nearest, by dense layers and shared experts in bf16.");
  refused(deepseek_r1(), {"re:.*"}, "says that some weights are in fp8, of which this model has none");
  check_refused(quantised(deepseek_r1(), {{"quant_method", "fp8"}, {"ignored_layers", {"model.layers.3.mlp.experts"}}}),
                "quantization_config.ignored_layers", "routed experts partly in fp8");
  // What it cannot read or does not know.
  refused(deepseek_r1(), {"transformer.h.0.attn"}, "names 'transformer.h.0.attn', which is no module");
  refused(deepseek_r1(), {"a.b", "c.d"}, "(2 such names)");
  refused(deepseek_r1(), {"re:model[.]layers"}, "holds 're:model[.]layers'");
  refused(deepseek_r1(), {""}, "holds ''");
  check_refused(quantised(deepseek_r1(), {{"quant_method", "fp8"}, {"quant_algo", "MIXED_PRECISION"}}),
                "quantization_config.quant_algo", "for some of the modules");
  check_refused(quantised(deepseek_r1(), {{"quant_method", "awq"}}), "quantization_config.quant_method",
                "is 'awq', of which");
  check_refused(quantised(deepseek_r1(), json::object()), "quantization_config.quant_method", "required and missing");
}

TEST_CASE("mxfp4 is of routed experts") {
  const json kept = {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"};
  json config = qwen3(48, 2048, 32, 768);
  json& q = config["quantization_config"];
  q = {{"quant_method", "mxfp4"}};
  CHECK(parsed(config).dtype == WeightType::kMxfp4);
  q["modules_to_not_convert"] = kept;
  CHECK(parsed(config).dtype == WeightType::kMxfp4);
  q["modules_to_not_convert"] = {"model.layers.4.mlp.experts"};
  check_refused(config, "quantization_config.modules_to_not_convert", "nearest, by routed experts partly in mxfp4");
  json llama = dense("llama", 32, 4096, 14336, 128256, 32, 8);
  llama["quantization_config"] = {{"quant_method", "mxfp4"}};
  check_refused(llama, "quantization_config.quant_method", "routed experts' weights are in mxfp4, of which this model");
}

TEST_CASE("ModelOpt's FP8 and NVFP4, by what they leave out") {
  const std::string key = "quantization_config.ignore";
  for (const char* method : {"modelopt", "modelopt_fp4"}) {
    json q = modelopt(kept_by_deepseek_nvfp4());
    q["quant_method"] = method;
    CHECK(parsed(quantised(deepseek_r1(), q)).dtype == WeightType::kFp4);
  }
  json q = modelopt(kept_by_deepseek_nvfp4());
  q.erase("quant_method");  // Qwen/Qwen3-32B-FP8-Static-PerTensor
  q["group_size"] = 16;
  CHECK(parsed(quantised(deepseek_r1(), q)).dtype == WeightType::kFp4);
  q["quant_algo"] = "FP8";
  q["ignore"] = {"lm_head"};
  CHECK(parsed(quantised(deepseek_r1(), q)).dtype == WeightType::kFp8);
  q["ignore"] = json::array();
  check_refused(quantised(deepseek_r1(), q), key, "does not leave out lm_head");
  CHECK(parsed(quantised(changed(deepseek_r1(), "tie_word_embeddings", true), q)).dtype == WeightType::kFp8);
  // nvidia's other NVFP4: attention's output in bf16 too, experts alone, attention in fp4 too.
  const auto refused = [&](const json& ignore, const std::string& word) {
    check_refused(quantised(deepseek_r1(), modelopt(ignore)), key, word);
  };
  refused({"lm_head", "model.layers.*.self_attn*"},
          "differs from fp4, the nearest, by attention's output projection in "
          "bf16. Remove quantization_config and state model.dtype in the "
          "scenario: fp4, or another.");
  refused(
      {"lm_head", "*self_attn*", "model.layers.0*", "model.layers.1.*", "model.layers.2.*", "*.mlp.shared_experts*"},
      "attention's output projection in bf16, dense layers and shared experts in bf16. Remove");
  refused({"lm_head", "model.layers.5.mlp.gate"}, "nearest, by attention in fp4. Remove");
  check_refused(quantised(deepseek_r1(), {{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}}),
                "quantization_config.quant_algo", "is 'MIXED_PRECISION'; known are FP8 and NVFP4");
  check_refused(quantised(deepseek_r1(), changed(modelopt(kept_by_deepseek_nvfp4()), "group_size", 32)),
                "quantization_config.group_size", "16..16");
}

TEST_CASE("a type of the cache is taken from the checkpoint") {
  // 61 layers of 512 + 64 elements, of one byte where the checkpoint says fp8.
  const auto bytes = [](const char* key, const json& value) {
    return parsed(quantised(deepseek_r1(), changed(fp8(json::array()), key, value))).kv_bytes_per_token(1).count();
  };
  CHECK(bytes("kv_cache_scheme", nullptr) == 61 * 576 * 2);
  CHECK(bytes("kv_cache_scheme", "FP8") == 61 * 576);
  CHECK(bytes("kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}, {"dynamic", false}}) == 61 * 576);
  CHECK(bytes("kv_cache_quant_algo", "FP8") == 61 * 576);
  check_refused(quantised(deepseek_r1(), changed(fp8(json::array()), "kv_cache_quant_algo", "INT8")),
                "quantization_config.kv_cache_quant_algo", "is 'INT8'; model.kv_dtype knows bf16 and fp8");
  check_refused(
      quantised(deepseek_r1(), changed(fp8(json::array()), "kv_cache_scheme", {{"num_bits", 4}, {"type", "float"}})),
      "quantization_config.kv_cache_scheme", "is float of 4 bits");
}

TEST_CASE("ModelOpt's hf_quant_config.json beside a config.json") {
  const test::TempDir folder;
  const std::string config = (folder / "config.json").string(), beside = (folder / "hf_quant_config.json").string();
  json q = {{"quant_algo", "NVFP4"},
            {"kv_cache_quant_algo", "FP8"},
            {"group_size", 16},
            {"exclude_modules", kept_by_deepseek_nvfp4()}};
  write(config, deepseek_r1());
  write(beside, {{"producer", {{"name", "modelopt"}}}, {"quantization", q}});
  CHECK(find_model(config).dtype == WeightType::kFp4);
  CHECK(find_model(config).bytes_per_kv == 1);
  // A config that says it itself, and a file of another name, do not look beside them.
  write(config, quantised(deepseek_r1(), {{"quant_method", "fp8"}}));
  CHECK(find_model(config).dtype == WeightType::kFp8);
  CHECK(find_model(config).bytes_per_kv == 2);
  write(folder / "r1.json", deepseek_r1());
  CHECK(find_model((folder / "r1.json").string()).dtype == WeightType::kBf16);
  // Errors name that file.
  write(config, deepseek_r1());
  q["exclude_modules"].push_back("model.layers.*.self_attn.o_proj");
  const auto problem = [&](const json& content) {
    write(beside, content);
    try {
      find_model(config);
    } catch (const InputError& e) {
      CHECK(e.place.file == beside);
      return e.place.key + ": " + e.problem;
    }
    return std::string("accepted");
  };
  const std::string other = problem({{"quantization", q}});
  CHECK(other.find("quantization.exclude_modules: ") == 0);
  CHECK(other.find("attention's output projection in bf16. Move this file away and state model.dtype in the scenario: "
                   "fp4") != other.npos);
  CHECK(problem(json::object()).find("quantization: this key is required") == 0);
  CHECK(problem(json::array()).find("one object") != std::string::npos);
}

TEST_CASE("compressed-tensors of 8-bit floats") {
  const json ignore = {"re:.*lm_head", "re:.*router$", "vision_model.model.layers.0.self_attn.q_proj"};
  CHECK(parsed(quantised(llama4(), compressed(8, "float", nullptr, ignore))).dtype == WeightType::kFp8);
  CHECK(parsed(quantised(llama4(), compressed(8, "float", 128, ignore))).dtype == WeightType::kFp8);
  const std::string key = "quantization_config.ignore",
                    bits = "quantization_config.config_groups.group_0.weights.num_bits";
  // RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic leaves attention in bf16.
  json scout = ignore;
  for (int l = 0; l < 48; ++l) {
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      scout.push_back(fmt::format("language_model.model.layers.{}.self_attn.{}", l, name));
    }
  }
  check_refused(quantised(llama4(), compressed(8, "float", nullptr, scout)), key,
                "differs from fp8, the nearest, by attention in bf16, attention's output projection in bf16. Remove");
  check_refused(quantised(llama4(), compressed(8, "float", nullptr, json::array())), key, "does not leave out lm_head");
  check_refused(quantised(llama4(), compressed(8, "int", nullptr, ignore)), bits, "of 8 bits, type 'int'");
  check_refused(quantised(llama4(), compressed(8, "float", nullptr, ignore, false)), bits, "without input_activations");
  json two = compressed(8, "float", nullptr, ignore);
  two["config_groups"]["group_1"] = two["config_groups"]["group_0"];
  check_refused(quantised(llama4(), two), "quantization_config.config_groups.group_1", "several groups");
  // By the modules that it is for: of routed experts, in groups of 32 (OCP's mxfp4), or of modules that are not there.
  json targets = compressed(4, "float", 32, json::array(), false);
  json& group = targets["config_groups"]["group_0"];
  group["targets"] = {"re:.*mlp\\.experts.*"};
  CHECK(parsed(quantised(deepseek_r1(), targets)).dtype == WeightType::kMxfp4);
  group["targets"] = {"re:.*mixer.*"};
  check_refused(quantised(deepseek_r1(), targets), "quantization_config.config_groups", "names 're:.*mixer.*'");
  group["targets"] = {"re:[a-z]+"};
  check_refused(quantised(deepseek_r1(), targets), "quantization_config.config_groups", "holds 're:[a-z]+'");
}

TEST_CASE("int4 is that of routed experts in groups of 32") {
  json config = deepseek_r1();
  json& q = config["quantization_config"];
  q = int4_of_experts();
  CHECK(parsed(config).dtype == WeightType::kInt4);
  const std::map<std::string, std::string> part = {
      {"re:.*self_attn.*", "nearest, by attention in int4, attention's output projection in int4. Remove"},
      {"re:.*shared_experts.*", "nearest, by dense layers and shared experts partly in int4. Remove"},
      {"re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
       "nearest, by dense layers and shared experts partly in int4. Remove"}};
  for (const auto& [kept, word] : part) {
    json fewer = config;
    json& ignore = fewer["quantization_config"]["ignore"];
    ignore.erase(std::find(ignore.begin(), ignore.end(), kept));
    check_refused(fewer, "quantization_config.ignore", word);
  }
  const auto refused = [&](const std::function<void(json&)>& change, const std::string& key, const std::string& word) {
    json other = config;
    change(other["quantization_config"]);
    check_refused(other, "quantization_config." + key, word);
  };
  const std::string bits = "config_groups.group_0.weights.num_bits";
  for (const int size : {128, -1}) {  // -1: of a channel
    refused([&](json& r) { r["config_groups"]["group_0"]["weights"]["group_size"] = size; }, bits,
            fmt::format("group_size {}", size));
  }
  refused([](json& r) { r["config_groups"]["group_0"]["weights"]["num_bits"] = 3; }, bits, "of 3 bits");
  refused([](json& r) { r["ignore"][1] = "model.layers.0.self_attn"; }, "ignore", "attention partly in int4");
  refused([](json& r) { r["ignore"].push_back("re:.*mlp.experts.*"); }, "ignore", "of which this model has none");
  refused([](json& r) { r.erase("ignore"); }, "quant_method", "does not leave out lm_head");
  refused([](json& r) { r.erase("config_groups"); }, "config_groups", "required and missing");
}

TEST_CASE("names of modules, with wildcards and as regular expressions") {
  const auto covers = [](const std::string& name, const std::string& module) {
    return HfModuleList({name}).covers(HfModule{{module}, WeightsOf::kFfn});
  };
  const std::string up = "model.layers.12.mlp.up_proj";
  for (const char* name :
       {"model.layers.12.mlp.up_proj", "model.layers.12.mlp", "model.layers.12", "model.layers.12*", "model.layers.1*",
        "language_model.model.layers.12.mlp*", "model.layers.1?.mlp", "mlp", "mlp.up_proj", "up_proj", "*.mlp.*",
        "*.mlp", "model.layers.12.feed_forward", "re:.*mlp.*", "re:^model\\.layers\\.\\d+\\.mlp\\.up_proj$",
        "re:.*\\.(up|down)_proj", "re:model.layers.(?:11|12).mlp", "re:.*layers\\.[0-9]+\\.mlp"}) {
    CAPTURE(std::string(name));
    CHECK(covers(name, up));
  }
  for (const char* name : {"model.layers.1", "model.layers.1.*", "model.layers.12.mlp.up", "ml", "up", "gate", "re:mlp",
                           "re:.*mlp$", "re:.*(gate|down)_proj", "vision.model.layers.12.mlp", "mtp.layers.12"}) {
    CAPTURE(std::string(name));
    CHECK_FALSE(covers(name, up));
  }
  for (const char* name : {"re:", "", "re:a{2}", "re:(a", "re:a|b", "re:[a-z]", "a[0]", "re:(a|b*)",
                           "re:(a|b|c)(a|b|c)(a|b|c)(a|b|c)"}) {  // 81 choices
    CAPTURE(std::string(name));
    CHECK_THROWS_AS(HfModuleList({name}), std::invalid_argument);
  }
}
