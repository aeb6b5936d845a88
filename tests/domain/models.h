// Models with published figures, written out here so that the tests do not depend on the catalogue.
#pragma once

#include "sim/domain/moe_spec.h"

namespace epsim::test {

// huggingface.co/deepseek-ai/DeepSeek-R1, config.json; weights taken as bf16.
inline MoeSpec deepseek_r1() {
  MoeSpec m;
  m.name = "DeepSeek-R1";
  m.layers = 61;
  m.first_dense_layers = 3;
  m.hidden = 7168;
  m.dense_intermediate = 18432;
  m.experts = 256;
  m.top_k = 8;
  m.moe_intermediate = 2048;
  m.shared_intermediate = 2048;
  m.expert_groups = 8;
  m.top_groups = 4;
  m.vocab = 129280;
  m.attention.kind = AttentionKind::kMla;
  m.attention.heads = 128;
  m.attention.q_lora_rank = 1536;
  m.attention.kv_lora_rank = 512;
  m.attention.qk_nope_head_dim = 128;
  m.attention.qk_rope_head_dim = 64;
  m.attention.v_head_dim = 128;
  return m;
}

// huggingface.co/moonshotai/Kimi-K2-Instruct, config.json.
inline MoeSpec kimi_k2() {
  MoeSpec m = deepseek_r1();
  m.name = "Kimi-K2";
  m.first_dense_layers = 1;
  m.experts = 384;
  m.expert_groups = 1;
  m.top_groups = 1;
  m.vocab = 163840;
  m.attention.heads = 64;
  return m;
}

// huggingface.co/Qwen/Qwen3-235B-A22B, config.json.
inline MoeSpec qwen3_235b() {
  MoeSpec m;
  m.name = "Qwen3-235B-A22B";
  m.layers = 94;
  m.hidden = 4096;
  m.experts = 128;
  m.top_k = 8;
  m.moe_intermediate = 1536;
  m.vocab = 151936;
  m.attention.kind = AttentionKind::kGqa;
  m.attention.heads = 64;
  m.attention.kv_heads = 4;
  m.attention.head_dim = 128;
  return m;
}

}  // namespace epsim::test
