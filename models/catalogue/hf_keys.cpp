#include "models/catalogue/hf_keys.h"

namespace epsim {
namespace {

// `model_type` where a key means that in one family alone. A key that is neither here nor read by hf_config.cpp is
// refused.
struct HarmlessKey {
  std::string_view key, model_type = "";
};
constexpr HarmlessKey kHarmless[] = {
    // bookkeeping of files and libraries
    {"_name_or_path"},
    {"_attn_implementation_autoset"},
    {"auto_map"},
    {"cache_implementation"},
    {"for_llm_compressor"},
    {"transformers_version"},
    {"use_cache"},
    {"return_dict"},
    {"output_attentions"},
    {"output_hidden_states"},
    {"is_encoder_decoder"},
    {"id2label"},
    {"label2id"},
    {"problem_type"},
    {"torchscript"},
    // tokens and lengths
    {"bos_token_id"},
    {"eos_token_id"},
    {"pad_token_id"},
    {"max_position_embeddings"},
    {"max_sequence_length"},
    {"model_max_length"},
    {"initial_context_length", "gpt_oss"},
    {"boi_token_index", "llama4"},
    {"eoi_token_index", "llama4"},
    {"image_token_index", "llama4"},
    // positions
    {"rope_theta"},
    {"rope_scaling"},
    {"rope_parameters"},
    {"rope_interleave"},
    {"rotary_dim"},
    {"partial_rotary_factor"},
    {"attn_temperature_tuning"},
    {"attn_scale"},
    {"floor_scale"},
    // training
    {"attention_dropout"},
    {"aux_loss_alpha"},
    {"initializer_range"},
    {"output_router_logits"},
    {"pretraining_tp"},
    {"router_aux_loss_coef"},
    {"router_jitter_noise"},
    {"seq_aux"},
    {"ep_size"},
    // how scores become choices and weights of experts, not how many
    {"norm_topk_prob"},
    {"routed_scaling_factor"},
    {"scoring_func"},
    {"use_routing_bias"},
    {"experts_per_token", "gpt_oss"},  // num_experts_per_tok again
    // activations, norms and biases
    {"attention_bias"},
    {"clip_qkv"},
    {"hidden_act"},
    {"hidden_activation"},
    {"mlp_bias"},
    {"qk_norm_type"},
    {"qkv_bias"},
    {"rms_norm_eps"},
    {"swiglu_alpha"},
    {"swiglu_limit"},
    {"use_qk_norm"},
    {"layernorm_full_attention_beta", "minimax_m2"},
    {"layernorm_linear_attention_beta", "minimax_m2"},
    {"layernorm_mlp_beta", "minimax_m2"},
    {"shared_moe_mode", "minimax_m2"},        // of shared experts, which shared_intermediate_size counts
    {"mlp_intermediate_size", "minimax_m2"},  // of dense layers, which it has none of
    // multi-token prediction: layers beside the model's own, which are not counted
    {"num_nextn_predict_layers"},
    {"num_mtp_modules"},
    {"mtp_transformer_layers"},
    {"use_mtp"},
    // the vision tower is not counted (Llama 4: 0.8 billion parameters)
    {"vision_config", "llama4"},
};

}  // namespace

std::set<std::string_view> harmless_keys(std::string_view model_type) {
  std::set<std::string_view> out;
  for (const HarmlessKey& k : kHarmless) {
    if (k.model_type.empty() || k.model_type == model_type) {
      out.insert(k.key);
    }
  }
  return out;
}

}  // namespace epsim
