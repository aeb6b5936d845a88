#include "models/catalogue/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "models/catalogue/hf_object.h"
#include "models/catalogue/hf_quantisation.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

enum class SharedExperts {
  kNone,
  kCount,  // n_shared_experts, each as wide as a routed one
  kWidth,  // shared_expert_intermediate_size
  kOne     // always one, as wide as a routed one
};
enum class MoeLayers {
  kAll,
  kFirstDense,  // first_k_dense_replace; of the rest, numbers divisible by moe_layer_freq (absent: all)
  kSparseStep,  // every decoder_sparse_step-th, without mlp_only_layers
  kInterleave,  // moe_layers, or every interleave_moe_layer_step-th
  kNone         // dense models
};
// Which layers do not attend to all tokens, where layer_types does not say it.
enum class Limits {
  kNone,
  kWindows,          // all layers, where sliding_window is given
  kOptionalWindows,  // use_sliding_window
  kAlternating,      // every second layer has sliding_window
  kChunks,           // layers with rotary embedding: no_rope_layers, or all but every no_rope_layer_interval-th
  kSparse,           // all layers
  kHybrid            // linear attention in all but every full_attention_interval-th
};

// How a family of models names things. `first_dense`: first_k_dense_replace where a config leaves it out; negative: it
// may not.
struct Dialect {
  std::string_view model_type;
  std::string_view architecture;  // `architectures` without "ForCausalLM" and the like
  std::string_view experts, expert_width, dense_width;
  SharedExperts shared;
  MoeLayers layers;
  Limits limits;
  bool groups;  // n_group and topk_group
  int first_dense;
};

// Defaults: configuration_<model_type>.py of huggingface/transformers v4.57 (deepseek_v32, glm_moe_dsa, minimax_m2,
// qwen3_5_moe: v5). In all of them tie_word_embeddings is false, decoder_sparse_step and interleave_moe_layer_step are 1.
constexpr Dialect kDialects[] = {
    {"deepseek_v2", "DeepseekV2", "n_routed_experts", "moe_intermediate_size", "intermediate_size",
     SharedExperts::kCount, MoeLayers::kFirstDense, Limits::kNone, true, 0},
    {"deepseek_v3", "DeepseekV3", "n_routed_experts", "moe_intermediate_size", "intermediate_size",
     SharedExperts::kCount, MoeLayers::kFirstDense, Limits::kNone, true, 3},
    {"deepseek_v32", "DeepseekV32", "n_routed_experts", "moe_intermediate_size", "intermediate_size",
     SharedExperts::kCount, MoeLayers::kFirstDense, Limits::kSparse, true, 3},
    {"kimi_k2", "DeepseekV3", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, Limits::kNone, true, -1},
    {"kimi_k25", "KimiK25", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, Limits::kNone, true, -1},
    {"glm_moe_dsa", "GlmMoeDsa", "n_routed_experts", "moe_intermediate_size", "intermediate_size",
     SharedExperts::kCount, MoeLayers::kFirstDense, Limits::kSparse, true, 3},
    {"glm4_moe", "Glm4Moe", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, Limits::kNone, true, 1},
    {"qwen2_moe", "Qwen2Moe", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kWidth,
     MoeLayers::kSparseStep, Limits::kOptionalWindows, false, 0},
    {"qwen3_moe", "Qwen3Moe", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kNone,
     MoeLayers::kSparseStep, Limits::kOptionalWindows, false, 0},
    {"qwen3_vl_moe", "Qwen3VLMoe", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kNone,
     MoeLayers::kSparseStep, Limits::kOptionalWindows, false, 0},
    {"qwen3_vl_moe_text", "Qwen3VLMoe", "num_experts", "moe_intermediate_size", "intermediate_size",
     SharedExperts::kNone, MoeLayers::kSparseStep, Limits::kOptionalWindows, false, 0},
    {"qwen3_5_moe", "Qwen3_5Moe", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kWidth,
     MoeLayers::kSparseStep, Limits::kHybrid, false, 0},
    {"qwen3_5_moe_text", "Qwen3_5Moe", "num_experts", "moe_intermediate_size", "intermediate_size",
     SharedExperts::kWidth, MoeLayers::kSparseStep, Limits::kHybrid, false, 0},
    {"qwen3_next", "Qwen3Next", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kWidth,
     MoeLayers::kSparseStep, Limits::kHybrid, false, 0},
    {"olmoe", "Olmoe", "num_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll, Limits::kNone,
     false, 0},
    {"mixtral", "Mixtral", "num_local_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll,
     Limits::kWindows, false, 0},
    {"minimax_m2", "MiniMaxM2", "num_local_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll,
     Limits::kWindows, false, 0},
    {"gpt_oss", "GptOss", "num_local_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll,
     Limits::kAlternating, false, 0},
    {"llama", "Llama", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kNone, false, 0},
    {"mistral", "Mistral", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kWindows, false,
     0},
    {"qwen2", "Qwen2", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kOptionalWindows,
     false, 0},
    {"qwen3", "Qwen3", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kOptionalWindows,
     false, 0},
    {"qwen3_vl", "Qwen3VL", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone,
     Limits::kOptionalWindows, false, 0},
    {"qwen3_vl_text", "Qwen3VL", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone,
     Limits::kOptionalWindows, false, 0},
    {"qwen3_5", "Qwen3_5", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kHybrid, false,
     0},
    {"qwen3_5_text", "Qwen3_5", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kHybrid,
     false, 0},
    {"mimo", "MiMo", "", "", "intermediate_size", SharedExperts::kNone, MoeLayers::kNone, Limits::kOptionalWindows,
     false, 0},
    {"llama4", "Llama4", "num_local_experts", "intermediate_size", "intermediate_size_mlp", SharedExperts::kOne,
     MoeLayers::kInterleave, Limits::kChunks, false, 0},
    {"llama4_text", "Llama4", "num_local_experts", "intermediate_size", "intermediate_size_mlp", SharedExperts::kOne,
     MoeLayers::kInterleave, Limits::kChunks, false, 0},
};

// A model of images and the text models that stand in its text_config.
constexpr std::pair<std::string_view, std::string_view> kTextModels[] = {
    {"kimi_k25", "kimi_k2"},
    {"kimi_k25", "deepseek_v3"},
    {"llama4", "llama4_text"},
    {"qwen3_vl", "qwen3_vl_text"},
    {"qwen3_vl_moe", "qwen3_vl_moe_text"},
    {"qwen3_5", "qwen3_5_text"},
    {"qwen3_5_moe", "qwen3_5_moe_text"},
};

const Dialect& dialect_of(const HfObject& in) {
  const std::string model_type = in.word("model_type");
  const auto found = std::ranges::find(kDialects, model_type, &Dialect::model_type);
  if (found == std::end(kDialects)) {
    in.fail("model_type",
            fmt::format("'{}' is not a model_type that epsim can price; known are {}. Describe the model in a .yaml "
                        "file instead (models/architectures shows how).",
                        model_type, fmt::join(mapped(kDialects, &Dialect::model_type), ", ")));
  }
  return *found;
}

void check_architecture(const HfObject& in, const Dialect& dialect) {
  if (!in.given("architectures")) {
    in.skip("architectures");
    return;
  }
  for (const std::string& name : in.words("architectures")) {
    if (name.substr(0, name.find("For")) != dialect.architecture) {
      in.fail("architectures",
              fmt::format("holds {}, but a model_type '{}' is a {}ForCausalLM. epsim does not price one as the other; "
                          "describe the model in a .yaml file (models/architectures shows how).",
                          name, dialect.model_type, dialect.architecture));
    }
  }
}

// The dialect of a text_config, whose model_type has to be one that the wrapper holds.
const Dialect& text_dialect_of(const HfObject& outer, const HfObject& text, const Dialect& wrapper) {
  std::vector<std::string_view> known;
  for (const auto& [of, name] : kTextModels) {
    if (of == wrapper.model_type) {
      known.push_back(name);
    }
  }
  if (known.empty()) {
    outer.fail("text_config", fmt::format("a model_type '{}' holds no other model.", wrapper.model_type));
  }
  if (!text.given("model_type")) {
    return wrapper;
  }
  const std::string own = text.word("model_type");
  if (std::find(known.begin(), known.end(), own) == known.end()) {
    text.fail("model_type", fmt::format("is '{}' inside a model_type '{}', which holds {}.", own, wrapper.model_type,
                                        fmt::join(known, " or ")));
  }
  return dialect_of(text);
}

std::vector<int> moe_layers_of(const HfObject& in, const Dialect& dialect, int layers) {
  if (dialect.layers == MoeLayers::kInterleave && in.given("moe_layers")) {
    in.skip("interleave_moe_layer_step");
    return in.integers("moe_layers");
  }
  std::vector<int> out;
  if (dialect.layers == MoeLayers::kFirstDense && in.given("mlp_layer_types")) {
    in.skip("first_k_dense_replace");
    const std::vector<std::string> types = in.words("mlp_layer_types");
    for (std::size_t l = 0; l < types.size(); ++l) {
      if (types[l] == "sparse") {
        out.push_back(static_cast<int>(l));
      }
    }
    return out;
  }
  int first = 0, step = 1, remainder = 0;
  std::vector<int> dense;
  if (dialect.layers == MoeLayers::kFirstDense) {
    first = dialect.first_dense < 0 ? in.integer("first_k_dense_replace", 0)
                                    : in.integer_or("first_k_dense_replace", 0, dialect.first_dense);
    step = in.integer_or("moe_layer_freq", 1, 1);
  } else if (dialect.layers == MoeLayers::kSparseStep) {
    step = in.integer_or("decoder_sparse_step", 1, 1);
    remainder = step - 1;
    dense = in.given("mlp_only_layers") ? in.integers("mlp_only_layers") : dense;
  } else if (dialect.layers == MoeLayers::kInterleave) {
    step = in.integer_or("interleave_moe_layer_step", 1, 1);
    remainder = step - 1;
  }
  for (int l = first; l < layers; ++l) {
    if (l % step == remainder && std::find(dense.begin(), dense.end(), l) == dense.end()) {
      out.push_back(l);
    }
  }
  return out;
}

// MoeSpec knows leading dense layers and a regular stride after them.
void set_layers(const HfObject& in, const Dialect& dialect, MoeSpec& out) {
  out.layers = in.integer("num_hidden_layers", 1, 10'000);
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"}) {
    out.mtp_layers = std::max(out.mtp_layers, in.integer_or(key, 0, 0));
  }
  if (dialect.layers == MoeLayers::kNone) {
    out.first_dense_layers = out.layers;
    return;
  }
  const std::vector<int> moe = moe_layers_of(in, dialect, out.layers);
  if (moe.empty()) {
    in.fail("num_hidden_layers", "none of the layers has experts, by the keys that say which have.");
  }
  out.moe_every = moe.size() > 1 ? std::max(1, moe[1] - moe[0]) : 1;
  out.first_dense_layers = moe[0] - (out.moe_every - 1);
  if (out.first_dense_layers < 0 || out.moe_layer_numbers() != moe) {
    in.fail("num_hidden_layers",
            fmt::format("layers {} have experts; supported are leading dense layers and then every "
                        "n-th layer with experts.",
                        fmt::join(moe, ", ")));
  }
}

// Sliding, chunked and so on: as many layers of each reach as the config says.
std::vector<AttentionReach> reach_by_layer_types(const HfObject& in, int layers) {
  constexpr std::array<std::pair<std::string_view, AttentionReach>, 5> kKnown = {{
      {"full_attention", AttentionReach::kFull},
      {"sliding_attention", AttentionReach::kSliding},
      {"chunked_attention", AttentionReach::kChunked},
      {"deepseek_sparse_attention", AttentionReach::kSparse},
      {"linear_attention", AttentionReach::kLinear},
  }};
  std::vector<AttentionReach> out;
  for (const std::string& type : in.words("layer_types")) {
    const auto known = std::find_if(kKnown.begin(), kKnown.end(), [&](const auto& k) { return k.first == type; });
    if (known == kKnown.end()) {
      in.fail("layer_types", fmt::format("holds '{}'; known are full_attention, sliding_attention, chunked_attention, "
                                         "deepseek_sparse_attention and linear_attention.",
                                         type));
    }
    out.push_back(known->second);
  }
  if (static_cast<int>(out.size()) != layers) {
    in.fail("layer_types", fmt::format("names {} layers; num_hidden_layers is {}.", out.size(), layers));
  }
  return out;
}

std::vector<AttentionReach> reach_by_rule(const HfObject& in, Limits rule, int layers) {
  std::vector<AttentionReach> out(layers, AttentionReach::kFull);
  const auto all_but = [&](int every, AttentionReach reach) {  // every n-th stays as it is
    for (int l = 0; l < layers; ++l) {
      out[l] = (l + 1) % every != 0 ? reach : AttentionReach::kFull;
    }
  };
  if (rule == Limits::kWindows && in.given("sliding_window")) {
    out.assign(out.size(), AttentionReach::kSliding);
  } else if ((rule == Limits::kOptionalWindows || rule == Limits::kHybrid) &&
             in.boolean_or("use_sliding_window", false)) {
    in.fail("use_sliding_window", "is true: layer_types has to say which layers have the window.");
  } else if (rule == Limits::kAlternating && (in.given("sliding_window") || !in.has("sliding_window"))) {
    all_but(2, AttentionReach::kSliding);
  } else if (rule == Limits::kChunks && (in.given("attention_chunk_size") || !in.has("attention_chunk_size"))) {
    const std::vector<int> rotary = in.given("no_rope_layers") ? in.integers("no_rope_layers") : std::vector<int>{};
    const int interval = in.integer_or("no_rope_layer_interval", 1, 4);
    all_but(interval, AttentionReach::kChunked);
    for (std::size_t l = 0; l < std::min(rotary.size(), out.size()); ++l) {
      out[l] = rotary[l] != 0 ? AttentionReach::kChunked : AttentionReach::kFull;
    }
  } else if (rule == Limits::kSparse) {
    out.assign(out.size(), AttentionReach::kSparse);
  } else if (rule == Limits::kHybrid) {
    all_but(in.integer_or("full_attention_interval", 1, 4), AttentionReach::kLinear);
  }
  return out;
}

std::vector<AttentionReach> reach_of(const HfObject& in, const Dialect& dialect, int layers) {
  return in.given("layer_types") ? reach_by_layer_types(in, layers) : reach_by_rule(in, dialect.limits, layers);
}

// Read by a rule, or without a say: a window that is switched off, a rule that layer_types stands above.
constexpr std::pair<Limits, std::string_view> kLimitKeys[] = {
    {Limits::kWindows, "sliding_window"},
    {Limits::kWindows, "attn_type_list"},
    {Limits::kAlternating, "sliding_window"},
    {Limits::kOptionalWindows, "sliding_window"},
    {Limits::kOptionalWindows, "use_sliding_window"},
    {Limits::kOptionalWindows, "max_window_layers"},
    {Limits::kHybrid, "use_sliding_window"},
    {Limits::kHybrid, "full_attention_interval"},
    {Limits::kChunks, "no_rope_layers"},
    {Limits::kChunks, "no_rope_layer_interval"},
    {Limits::kChunks, "attention_chunk_size"},
};

void read_limits(const HfObject& in, const Dialect& dialect, int layers, AttentionSpec& out) {
  const Limits rule = dialect.limits;
  const std::vector<AttentionReach> reach = reach_of(in, dialect, layers);
  for (const auto& [family, key] : kLimitKeys) {
    if (family == rule) {
      in.skip(std::string(key));
    }
  }
  if (rule == Limits::kWindows && in.given("attn_type_list")) {
    for (const int type : in.integers("attn_type_list")) {
      if (type != 1) {
        in.fail("attn_type_list", fmt::format("holds {}; only softmax attention (1) is known.", type));
      }
    }
  }
  const auto add = [&](AttentionReach which, const char* key, int otherwise) {
    if (const auto n = std::count(reach.begin(), reach.end(), which); n > 0) {
      const int tokens = key == nullptr ? 0 : otherwise > 0 ? in.integer_or(key, 1, otherwise) : in.integer(key, 1);
      out.limited.push_back({which, static_cast<int>(n), tokens});
    }
  };
  add(AttentionReach::kSliding, "sliding_window", rule == Limits::kAlternating ? 128 : 0);  // gpt_oss's default
  add(AttentionReach::kChunked, "attention_chunk_size", 8192);                              // llama4_text's default
  add(AttentionReach::kSparse, "index_topk", 0);
  add(AttentionReach::kLinear, nullptr, 0);
  if (std::find(reach.begin(), reach.end(), AttentionReach::kSparse) != reach.end()) {
    out.indexer = {in.integer("index_n_heads", 1), in.integer("index_head_dim", 1)};
  }
  if (std::find(reach.begin(), reach.end(), AttentionReach::kLinear) != reach.end()) {
    out.linear.key_heads = in.integer("linear_num_key_heads", 1);
    out.linear.value_heads = in.integer("linear_num_value_heads", 1);
    out.linear.key_head_dim = in.integer("linear_key_head_dim", 1);
    out.linear.value_head_dim = in.integer("linear_value_head_dim", 1);
    out.linear.conv_kernel = in.integer("linear_conv_kernel_dim", 1);
    if (in.given("mamba_ssm_dtype") && in.word("mamba_ssm_dtype") != "float32") {
      in.fail("mamba_ssm_dtype", "the states of linear attention are float32 here.");
    }
  }
}

AttentionSpec read_attention(const HfObject& in, const Dialect& dialect, const MoeSpec& model) {
  AttentionSpec out;
  out.heads = in.integer("num_attention_heads", 1);
  if (in.given("kv_lora_rank")) {
    out.kind = AttentionKind::kMla;
    out.kv_lora_rank = in.integer("kv_lora_rank", 1);
    out.q_lora_rank = in.integer_or_null("q_lora_rank", 1, 0);
    out.qk_nope_head_dim = in.integer("qk_nope_head_dim", 1);
    out.qk_rope_head_dim = in.integer("qk_rope_head_dim", 0);
    out.v_head_dim = in.integer("v_head_dim", 1);
    for (const char* key : {"num_key_value_heads", "head_dim", "qk_head_dim"}) {
      in.skip(key);  // as many as heads; a width that follows from the others
    }
  } else {
    out.kv_heads = in.integer_or_null("num_key_value_heads", 1, out.heads);
    if (in.given("head_dim")) {
      out.head_dim = in.integer("head_dim", 1);
    } else if (model.hidden % out.heads == 0) {
      out.head_dim = model.hidden / out.heads;  // what every GQA family of the table means by leaving it out
    } else {
      in.fail("head_dim",
              fmt::format("is missing, and hidden_size {} does not divide into {} heads.", model.hidden, out.heads));
    }
    // Qwen3NextAttention: q_proj has a gate beside the queries.
    out.output_gate = dialect.limits == Limits::kHybrid && in.boolean_or("attn_output_gate", true);
  }
  read_limits(in, dialect, model.layers, out);
  return out;
}

void read_experts(const HfObject& in, const Dialect& dialect, MoeSpec& out) {
  if (dialect.layers == MoeLayers::kNone) {
    out.dense_intermediate = in.integer(std::string(dialect.dense_width), 1);
    return;
  }
  out.experts = in.integer(std::string(dialect.experts), 1);
  out.top_k = in.integer("num_experts_per_tok", 1);
  out.moe_intermediate = in.integer(std::string(dialect.expert_width), 1);
  if (dialect.shared == SharedExperts::kCount) {
    out.shared_intermediate = in.integer_or_null("n_shared_experts", 0, 0, 100) * out.moe_intermediate;
  } else if (dialect.shared == SharedExperts::kWidth) {
    out.shared_intermediate = in.integer("shared_expert_intermediate_size", 0);
  } else if (dialect.shared == SharedExperts::kOne) {
    out.shared_intermediate = out.moe_intermediate;
  } else if (dialect.model_type == "minimax_m2") {
    out.shared_intermediate = in.integer_or("shared_intermediate_size", 0, 0);
  } else if (in.given("shared_expert_intermediate_size")) {
    in.integer("shared_expert_intermediate_size", 0, 0);  // Qwen3-Coder's, of a family that has none
  }
  // Plain top-k over all experts ignores the groups.
  const bool plain = in.given("topk_method") && in.word("topk_method") == "greedy";
  if (dialect.groups && !plain) {
    out.expert_groups = in.integer_or_null("n_group", 1, 1);
    out.top_groups = in.integer_or_null("topk_group", 1, 1);
  } else if (dialect.groups) {
    in.skip("n_group");
    in.skip("topk_group");
  }
  if (out.dense_layers() > 0) {
    out.dense_intermediate = in.integer(std::string(dialect.dense_width), 1);
  } else {
    in.skip(std::string(dialect.dense_width));
  }
}

// `outer` is the whole document, `in` the object with the text model; either may hold these keys. Without a type, as
// gpt-oss has none, or with float32 engines take 16 bits.
void read_precision(const HfObject& outer, const HfObject& in, const Dialect& dialect,
                    const std::optional<std::filesystem::path>& beside, MoeSpec& out) {
  const auto holder = [&](const char* key) -> const HfObject& { return in.given(key) ? in : outer; };
  out.tied_embeddings = holder("tie_word_embeddings").boolean_or("tie_word_embeddings", false);
  const char* key = holder("dtype").given("dtype") ? "dtype" : "torch_dtype";
  if (const HfObject& with_type = holder(key); with_type.given(key)) {
    const std::string dtype = with_type.word(key);
    if (dtype != "bfloat16" && dtype != "float16" && dtype != "float32") {
      with_type.fail(key, fmt::format("is '{}'; known are bfloat16, float16 and float32.", dtype));
    }
  }
  if (const HfObject& quantised = holder("quantization_config"); quantised.given("quantization_config")) {
    read_quantisation(quantised.object("quantization_config"), reach_of(in, dialect, out.layers), out);
  } else if (beside) {
    const nlohmann::json json = hf_document(read_document(*beside), beside->string());
    read_quantisation_file(HfObject(json, beside->string(), ""), reach_of(in, dialect, out.layers), out);
  }
  for (const char* read : {"tie_word_embeddings", "dtype", "torch_dtype", "quantization_config"}) {
    in.skip(read);
    outer.skip(read);
  }
}

}  // namespace

MoeSpec parse_hf_config(const std::string& text, const std::filesystem::path& file,
                        const std::optional<std::filesystem::path>& beside) {
  const nlohmann::json json = hf_document(text, file.string());
  const HfObject outer(json, file.string(), "");
  std::optional<HfObject> nested;
  const Dialect& wrapper = dialect_of(outer);  // of a kind that is not known it may change its text model
  check_architecture(outer, wrapper);
  if (outer.given("text_config")) {
    nested.emplace(outer.object("text_config"));
  }
  const HfObject& in = nested ? *nested : outer;
  const Dialect& dialect = nested ? text_dialect_of(outer, in, wrapper) : wrapper;
  if (nested) {
    check_architecture(in, dialect);
  }
  MoeSpec out;
  out.name =
      (file.filename() == "config.json" ? std::filesystem::absolute(file).parent_path().filename() : file.stem());
  out.source = file.string();
  out.model_type = dialect.model_type;
  out.hidden = in.integer("hidden_size", 1);
  out.vocab = in.integer("vocab_size", 1);
  outer.skip("max_position_embeddings");
  in.skip("max_position_embeddings");
  out.context = in.integer_or("max_position_embeddings", 1, 0, 1'000'000'000);
  set_layers(in, dialect, out);
  read_experts(in, dialect, out);
  out.attention = read_attention(in, dialect, out);
  read_precision(outer, in, dialect, beside, out);
  outer.finish(outer.word("model_type"));
  if (nested) {
    nested->finish(dialect.model_type);
  }
  out.validate();
  return out;
}

std::optional<std::filesystem::path> hf_quantisation_beside(const std::filesystem::path& file) {
  const std::filesystem::path beside = file.parent_path() / "hf_quant_config.json";
  std::error_code none;
  return file.filename() == "config.json" && std::filesystem::exists(beside, none) ? std::optional(beside)
                                                                                   : std::nullopt;
}

MoeSpec read_hf_config(const std::filesystem::path& file) {
  return parse_hf_config(read_document(file), file, hf_quantisation_beside(file));
}

}  // namespace epsim
