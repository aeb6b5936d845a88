#include "models/catalogue/hf_object.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

using Json = nlohmann::json;

// `model_type` where keys mean that in one family alone. A key that is neither here nor read by hf_config.cpp is
// refused.
struct HarmlessKeys {
  std::string_view keys, model_type = "";
};
constexpr HarmlessKeys kHarmless[] = {
    // bookkeeping of files and libraries
    {"_name_or_path _attn_implementation_autoset auto_map cache_implementation for_llm_compressor "
     "transformers_version use_cache return_dict output_attentions output_hidden_states is_encoder_decoder "
     "id2label label2id problem_type torchscript"},
    // tokens and lengths
    {"bos_token_id eos_token_id pad_token_id max_sequence_length model_max_length"},
    // experts_per_token: num_experts_per_tok again
    {"initial_context_length experts_per_token", "gpt_oss"},
    // images: vision towers are not counted
    {"boi_token_index eoi_token_index image_token_index vision_config", "llama4"},
    {"ignore_index media_placeholder_token_id use_unified_vision_chunk video_placeholder vision_config", "kimi_k25"},
    {"image_token_id video_token_id vision_start_token_id vision_end_token_id vision_config", "qwen3_vl_moe"},
    {"image_token_id video_token_id vision_start_token_id vision_end_token_id vision_config", "qwen3_5_moe"},
    {"image_token_id video_token_id vision_start_token_id vision_end_token_id vision_config", "qwen3_vl"},
    {"image_token_id video_token_id vision_start_token_id vision_end_token_id vision_config", "qwen3_5"},
    // which layers have no experts, of a model that has none (Qwen3.5-27B)
    {"mlp_only_layers", "qwen3_5_text"},
    // how text is generated, which transformers 4 keeps beside the model (its `top_k` is that of sampling)
    {"add_cross_attention chunk_size_feed_forward diversity_penalty do_sample early_stopping "
     "encoder_no_repeat_ngram_size is_decoder length_penalty max_length min_length no_repeat_ngram_size "
     "num_beam_groups "
     "num_beams num_return_sequences output_scores pruned_heads remove_invalid_values repetition_penalty "
     "return_dict_in_generate temperature tf_legacy_loss tie_encoder_decoder top_k top_p typical_p use_bfloat16",
     "kimi_k2"},
    // positions
    {"rope_theta rope_scaling rope_parameters rope_interleave rotary_dim partial_rotary_factor "
     "attn_temperature_tuning attn_scale floor_scale indexer_rope_interleave use_mrope"},
    // training
    {"attention_dropout aux_loss_alpha initializer_range output_router_logits pretraining_tp "
     "router_aux_loss_coef router_jitter_noise seq_aux ep_size"},
    // how scores become choices and weights of experts, not how many
    {"norm_topk_prob routed_scaling_factor scoring_func use_routing_bias"},
    // activations, norms and biases
    {"attention_bias clip_qkv hidden_act hidden_activation mlp_bias qk_norm_type qkv_bias rms_norm_eps "
     "swiglu_alpha swiglu_limit use_qk_norm"},
    // how shared experts mix, which shared_intermediate_size counts; the width of dense layers, which it has none of
    {"layernorm_full_attention_beta layernorm_linear_attention_beta layernorm_mlp_beta shared_moe_mode "
     "mlp_intermediate_size",
     "minimax_m2"},
    // multi-token prediction: layers beside the model's own, which are not counted
    {"mtp_transformer_layers use_mtp mtp_use_dedicated_embeddings"},
};

std::set<std::string> harmless_keys(std::string_view model_type) {
  std::set<std::string> out;
  for (const HarmlessKeys& row : kHarmless) {
    if (row.model_type.empty() || row.model_type == model_type) {
      std::istringstream keys{std::string(row.keys)};
      out.insert(std::istream_iterator<std::string>(keys), {});
    }
  }
  return out;
}

bool is_integer(const Json& value) { return value.is_number_integer(); }
bool is_word(const Json& value) { return value.is_string(); }
bool is_layer(const Json& value) { return value.is_number_integer() && value >= 0 && value <= 1'000'000; }

}  // namespace

nlohmann::json hf_document(const std::string& text, const std::string& file) {
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    refuse_if(!json.is_object(), {file, 1, ""}, "this file holds one object of keys and values.");
    return json;
  } catch (const nlohmann::json::parse_error& e) {
    const auto end = text.begin() + std::min(e.byte, text.size());
    const auto line = 1 + std::count(text.begin(), end, '\n');
    throw InputError({file, static_cast<int>(line), ""}, "this is not valid JSON; is the file complete?");
  } catch (const nlohmann::json::out_of_range&) {  // it does not say where
    throw InputError({file, 0, ""}, "a number is beyond what 64 bits hold: at most 1.8e308.");
  }
}

void HfObject::fail(const std::string& key, const std::string& problem) const {
  throw InputError({file_, 0, prefix_ + key}, problem);
}

const Json& HfObject::need(const std::string& key, Fits fits, const char* what) const {
  if (!has(key)) {
    fail(key, "this key is required and missing.");
  }
  read_.insert(key);
  const Json& value = json_.at(key);
  if (!fits(value)) {
    fail(key, fmt::format("is {}, which is not {}.", value.dump().substr(0, 200), what));
  }
  return value;
}

template <class T>
std::vector<T> HfObject::list(const std::string& key, Fits fits, const char* what) const {
  std::vector<T> out;
  for (const Json& item : need(
           key, [](const Json& value) { return value.is_array(); }, "a list")) {
    if (!fits(item)) {
      fail(key, fmt::format("holds {}, which is not {}.", item.dump().substr(0, 200), what));
    }
    out.push_back(item.get<T>());
  }
  return out;
}

int HfObject::integer(const std::string& key, int smallest, int largest) const {
  const Json& value = need(key, is_integer, "a whole number");
  if (value < smallest || value > largest) {
    fail(key, fmt::format("is {}, which must be in {}..{}.", value.dump(), smallest, largest));
  }
  return value.get<int>();
}

int HfObject::integer_or_null(const std::string& key, int smallest, int if_null, int largest) const {
  skip(key);
  return has(key) && !given(key) ? if_null : integer(key, smallest, largest);
}

int HfObject::integer_or(const std::string& key, int smallest, int otherwise, int largest) const {
  return given(key) ? integer(key, smallest, largest) : otherwise;
}

bool HfObject::boolean_or(const std::string& key, bool otherwise) const {
  const auto fits = [](const Json& value) { return value.is_boolean(); };
  return given(key) ? need(key, fits, "true or false").get<bool>() : otherwise;
}

std::string HfObject::word(const std::string& key) const { return need(key, is_word, "a word in quotes"); }
std::vector<std::string> HfObject::words(const std::string& key) const {
  return list<std::string>(key, is_word, "a word in quotes");
}
std::vector<int> HfObject::integers(const std::string& key) const { return list<int>(key, is_layer, "a layer number"); }

HfObject HfObject::object(const std::string& key) const {
  const auto fits = [](const Json& value) { return value.is_object(); };
  return {need(key, fits, "an object of keys and values"), file_, prefix_ + key + "."};
}

void HfObject::finish(std::string_view model_type) const {
  const std::set<std::string> harmless = harmless_keys(model_type);
  std::vector<std::string> unknown;
  for (const auto& [key, value] : json_.items()) {
    if (!value.is_null() && !read_.contains(key) && !harmless.contains(key)) {
      unknown.push_back(key);
    }
  }
  if (!unknown.empty()) {
    fail(unknown.front(),
         fmt::format("unknown key{} '{}': epsim does not know whether {} the weights, the attention or the KV cache of "
                     "this model_type. Remove what changes none of them; otherwise describe the model in a .yaml file "
                     "(models/architectures shows how).",
                     unknown.size() > 1 ? "s" : "", fmt::join(unknown, "', '"),
                     unknown.size() > 1 ? "they change" : "it changes"));
  }
}

}  // namespace epsim
