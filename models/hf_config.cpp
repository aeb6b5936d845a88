#include "models/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/files.h"

namespace epsim {
namespace {

// One JSON object, read key by key.
class Object {
 public:
  Object(const nlohmann::json& json, std::string file, std::string prefix)
      : json_(json), file_(std::move(file)), prefix_(std::move(prefix)) {}

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    throw InputError({file_, 0, prefix_ + key}, problem);
  }
  bool has(const std::string& key) const { return json_.contains(key); }
  bool given(const std::string& key) const { return has(key) && !json_.at(key).is_null(); }

  int integer(const std::string& key, int smallest, int largest = 10'000'000) const {
    const nlohmann::json& value = need(key);
    if (!value.is_number_integer()) {
      fail(key, fmt::format("is {}, which is not a whole number.", value.dump()));
    }
    if (value < smallest || value > largest) {
      fail(key, fmt::format("is {}, which must be in {}..{}.", value.dump(), smallest, largest));
    }
    return value.get<int>();
  }
  // For keys that a config may set to null, which then means `if_null`; the key itself must be there.
  int integer_or_null(const std::string& key, int smallest, int if_null, int largest = 10'000'000) const {
    return need(key).is_null() ? if_null : integer(key, smallest, largest);
  }
  bool boolean(const std::string& key) const {
    const nlohmann::json& value = need(key);
    if (!value.is_boolean()) {
      fail(key, fmt::format("is {}, which is neither true nor false.", value.dump()));
    }
    return value.get<bool>();
  }
  std::string word(const std::string& key) const {
    const nlohmann::json& value = need(key);
    if (!value.is_string()) {
      fail(key, fmt::format("is {}, which is not a word in quotes.", value.dump()));
    }
    return value.get<std::string>();
  }
  std::vector<int> integers(const std::string& key) const {
    const nlohmann::json& value = need(key);
    std::vector<int> out;
    for (const nlohmann::json& item : value) {
      if (!item.is_number_integer() || item < 0 || item > 1'000'000) {
        fail(key, fmt::format("holds {}, which is not a layer number.", item.dump()));
      }
      out.push_back(item.get<int>());
    }
    return value.is_array() ? out : (fail(key, "must be a list of layer numbers."), out);
  }
  Object object(const std::string& key) const {
    const nlohmann::json& value = need(key);
    if (!value.is_object()) {
      fail(key, "must be an object of keys and values.");
    }
    return {value, file_, prefix_ + key + "."};
  }

 private:
  const nlohmann::json& need(const std::string& key) const {
    if (!has(key)) {
      fail(key, "this key is required and missing.");
    }
    return json_.at(key);
  }

  const nlohmann::json& json_;
  std::string file_, prefix_;
};

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
  kInterleave   // moe_layers, or every interleave_moe_layer_step-th
};

// How a family of models names things.
struct Dialect {
  std::string_view model_type, experts, expert_width, dense_width;
  SharedExperts shared;
  MoeLayers layers;
  bool groups;  // n_group and topk_group
};

constexpr Dialect kDialects[] = {
    {"deepseek_v2", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, true},
    {"deepseek_v3", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, true},
    {"kimi_k2", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, true},
    {"glm4_moe", "n_routed_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kCount,
     MoeLayers::kFirstDense, true},
    {"qwen2_moe", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kWidth,
     MoeLayers::kSparseStep, false},
    {"qwen3_moe", "num_experts", "moe_intermediate_size", "intermediate_size", SharedExperts::kNone,
     MoeLayers::kSparseStep, false},
    {"olmoe", "num_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll, false},
    {"mixtral", "num_local_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll, false},
    {"gpt_oss", "num_local_experts", "intermediate_size", "", SharedExperts::kNone, MoeLayers::kAll, false},
    {"llama4", "num_local_experts", "intermediate_size", "intermediate_size_mlp", SharedExperts::kOne,
     MoeLayers::kInterleave, false},
    {"llama4_text", "num_local_experts", "intermediate_size", "intermediate_size_mlp", SharedExperts::kOne,
     MoeLayers::kInterleave, false},
};

// The one of `keys` that the object has; which of several is meant would be a guess.
std::string the_one_of(const Object& in, const std::string& what, const std::vector<std::string>& keys) {
  std::vector<std::string> found;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(found), [&](const auto& k) { return in.given(k); });
  if (found.size() != 1) {
    in.fail(keys.front(),
            fmt::format("{} is not clear for this model_type: {} of the keys {} are there, and exactly one "
                        "is needed.",
                        what, found.size(), fmt::join(keys, ", ")));
  }
  return found.front();
}

// The dialect of a model_type that is not in the table, from the keys it uses. `experts_key` keeps the key's name
// alive.
Dialect dialect_by_keys(const Object& in, std::string& experts_key) {
  experts_key = the_one_of(in, "the number of experts", {"n_routed_experts", "num_experts", "num_local_experts"});
  const std::string rule = the_one_of(in, "which layers have experts",
                                      {"first_k_dense_replace", "decoder_sparse_step", "interleave_moe_layer_step"});
  Dialect out{"",   experts_key, "moe_intermediate_size", "intermediate_size", SharedExperts::kNone, MoeLayers::kAll,
              false};
  out.layers = rule == "first_k_dense_replace" ? MoeLayers::kFirstDense
               : rule == "decoder_sparse_step" ? MoeLayers::kSparseStep
                                               : MoeLayers::kInterleave;
  if (in.given("n_shared_experts")) {
    out.shared = SharedExperts::kCount;
  } else if (in.given("shared_expert_intermediate_size")) {
    out.shared = SharedExperts::kWidth;
  }
  out.groups = in.given("n_group");
  return out;
}

Dialect dialect_of(const Object& in, const std::string& model_type, std::string& experts_key) {
  for (const Dialect& known : kDialects) {
    if (known.model_type == model_type) {
      return known;
    }
  }
  return dialect_by_keys(in, experts_key);
}

std::vector<int> moe_layers_of(const Object& in, MoeLayers rule, int layers) {
  if (rule == MoeLayers::kInterleave && in.given("moe_layers")) {
    return in.integers("moe_layers");
  }
  int first = 0, step = 1, remainder = 0;
  std::vector<int> dense;
  if (rule == MoeLayers::kFirstDense) {
    first = in.integer("first_k_dense_replace", 0);
    step = in.given("moe_layer_freq") ? in.integer("moe_layer_freq", 1) : 1;
  } else if (rule == MoeLayers::kSparseStep) {
    step = in.integer("decoder_sparse_step", 1);
    remainder = step - 1;
    dense = in.given("mlp_only_layers") ? in.integers("mlp_only_layers") : dense;
  } else if (rule == MoeLayers::kInterleave) {
    step = in.integer("interleave_moe_layer_step", 1);
    remainder = step - 1;
  }
  std::vector<int> out;
  for (int l = first; l < layers; ++l) {
    if (l % step == remainder && std::find(dense.begin(), dense.end(), l) == dense.end()) {
      out.push_back(l);
    }
  }
  return out;
}

// MoeSpec knows leading dense layers and a regular stride after them.
void set_layers(const Object& in, MoeLayers rule, MoeSpec& out) {
  out.layers = in.integer("num_hidden_layers", 1, 10'000);
  const std::vector<int> moe = moe_layers_of(in, rule, out.layers);
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

AttentionSpec read_attention(const Object& in, int hidden) {
  AttentionSpec out;
  out.heads = in.integer("num_attention_heads", 1);
  if (in.given("kv_lora_rank")) {
    out.kind = AttentionKind::kMla;
    out.kv_lora_rank = in.integer("kv_lora_rank", 1);
    out.q_lora_rank = in.integer_or_null("q_lora_rank", 1, 0);
    out.qk_nope_head_dim = in.integer("qk_nope_head_dim", 1);
    out.qk_rope_head_dim = in.integer("qk_rope_head_dim", 0);
    out.v_head_dim = in.integer("v_head_dim", 1);
    return out;
  }
  out.kv_heads = in.integer_or_null("num_key_value_heads", 1, out.heads);
  if (in.given("head_dim")) {
    out.head_dim = in.integer("head_dim", 1);
  } else if (hidden % out.heads == 0) {
    out.head_dim = hidden / out.heads;  // what every GQA family of the table means by leaving it out
  } else {
    in.fail("head_dim",
            fmt::format("is missing, and hidden_size {} does not divide into {} heads.", hidden, out.heads));
  }
  return out;
}

void read_experts(const Object& in, const Dialect& dialect, MoeSpec& out) {
  out.experts = in.integer(std::string(dialect.experts), 1);
  out.top_k = in.integer("num_experts_per_tok", 1);
  out.moe_intermediate = in.integer(std::string(dialect.expert_width), 1);
  if (dialect.shared == SharedExperts::kCount) {
    out.shared_intermediate = in.integer_or_null("n_shared_experts", 0, 0, 100) * out.moe_intermediate;
  } else if (dialect.shared == SharedExperts::kWidth) {
    out.shared_intermediate = in.integer("shared_expert_intermediate_size", 0);
  } else if (dialect.shared == SharedExperts::kOne) {
    out.shared_intermediate = out.moe_intermediate;
  }
  // Plain top-k over all experts ignores the groups.
  const bool plain = in.given("topk_method") && in.word("topk_method") == "greedy";
  if (dialect.groups && !plain) {
    out.expert_groups = in.integer_or_null("n_group", 1, 1);
    out.top_groups = in.integer_or_null("topk_group", 1, 1);
  }
  if (out.dense_layers() > 0) {
    out.dense_intermediate = in.integer(std::string(dialect.dense_width), 1);
  }
}

double bytes_of_dtype(const Object& in, const std::string& key) {
  const std::string dtype = in.word(key);
  if (dtype == "bfloat16" || dtype == "float16") {
    return 2;
  }
  if (dtype == "float32") {
    return 4;
  }
  in.fail(key, fmt::format("is '{}'; known are bfloat16, float16 and float32.", dtype));
}

// `outer` is the whole document, `in` the object with the text model; either may hold these keys.
void read_precision(const Object& outer, const Object& in, const HfOptions& options, MoeSpec& out) {
  const auto holder = [&](const char* key) -> const Object& { return in.given(key) ? in : outer; };
  out.tied_embeddings = holder("tie_word_embeddings").boolean("tie_word_embeddings");
  const char* dtype = holder("dtype").given("dtype") ? "dtype" : "torch_dtype";
  if (!options.bytes_per_weight || holder(dtype).given(dtype)) {
    out.bytes_per_kv = bytes_of_dtype(holder(dtype), dtype);
  }
  out.bytes_per_weight = options.bytes_per_weight.value_or(out.bytes_per_kv);
  if (options.bytes_per_weight || !holder("quantization_config").given("quantization_config")) {
    return;
  }
  const Object quantisation = holder("quantization_config").object("quantization_config");
  const std::string method = quantisation.word("quant_method");
  if (method != "fp8") {
    quantisation.fail("quant_method",
                      fmt::format("is '{}', whose bytes per weight are not known here (only fp8 is). Remove "
                                  "quantization_config for torch_dtype throughout, or describe the model in "
                                  "a .yaml file with bytes_per_weight.",
                                  method));
  }
  out.bytes_per_weight = 1;  // block scales, embeddings and the router (about 1 %) are counted like the rest
}

nlohmann::json parse(const std::string& text, const std::string& file) {
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (!json.is_object()) {
      throw InputError({file, 1, ""}, "a config.json holds one object of keys and values.");
    }
    return json;
  } catch (const nlohmann::json::parse_error& e) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(e.byte, text.size()));
    const auto line = 1 + std::count(text.begin(), end, '\n');
    throw InputError({file, static_cast<int>(line), ""}, "this is not valid JSON; is the file complete?");
  }
}

}  // namespace

MoeSpec parse_hf_config(const std::string& text, const std::filesystem::path& file, const HfOptions& options) {
  const nlohmann::json json = parse(text, file.string());
  const Object outer(json, file.string(), "");
  const Object in = outer.given("text_config") ? outer.object("text_config") : outer;
  const std::string model_type = (in.given("model_type") ? in : outer).word("model_type");
  std::string experts_key;
  const Dialect dialect = dialect_of(in, model_type, experts_key);
  MoeSpec out;
  out.name =
      (file.filename() == "config.json" ? std::filesystem::absolute(file).parent_path().filename() : file.stem());
  out.source = file.string();
  out.hidden = in.integer("hidden_size", 1);
  out.vocab = in.integer("vocab_size", 1);
  set_layers(in, dialect.layers, out);
  read_experts(in, dialect, out);
  out.attention = read_attention(in, out.hidden);
  read_precision(outer, in, options, out);
  out.validate();
  return out;
}

MoeSpec read_hf_config(const std::filesystem::path& file, const HfOptions& options) {
  return parse_hf_config(read_file(file), file, options);
}

}  // namespace epsim
