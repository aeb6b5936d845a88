#include "calibration/measure/shapes.h"

#include <algorithm>

namespace epsim::measure {
namespace {

template <class T>
void sort_unique(std::vector<T>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

void add_ffn(SweepShapes& out, int hidden, int intermediate, int tp) {
  if (intermediate > 0 && intermediate % tp == 0) {
    out.projections.push_back({2 * intermediate / tp, hidden});
    out.projections.push_back({hidden, intermediate / tp});
  }
}

void add_mla(SweepShapes& out, const AttentionSpec& a, int hidden, int tp) {
  const int heads = a.heads / tp, query = a.qk_nope_head_dim + a.qk_rope_head_dim;
  const int query_inputs = a.q_lora_rank > 0 ? a.q_lora_rank : hidden;
  if (a.q_lora_rank > 0) {
    out.projections.push_back({a.q_lora_rank, hidden});
  }
  out.projections.push_back({heads * query, query_inputs});
  out.projections.push_back({a.kv_lora_rank + a.qk_rope_head_dim, hidden});
  out.projections.push_back({heads * (a.qk_nope_head_dim + a.v_head_dim), a.kv_lora_rank});
  out.projections.push_back({hidden, heads * a.v_head_dim});
}

void add_gqa(SweepShapes& out, const AttentionSpec& a, int hidden, int tp) {
  const int heads = a.heads / tp, kv_heads = std::max(1, a.kv_heads / tp);
  out.projections.push_back({(heads + 2 * kv_heads) * a.head_dim, hidden});
  out.projections.push_back({hidden, heads * a.head_dim});
}

}  // namespace

SweepShapes shapes_of(std::span<const MoeSpec> models) {
  SweepShapes out;
  for (const MoeSpec& m : models) {
    if (m.experts > 0) {
      out.experts.push_back({m.hidden, m.moe_intermediate, m.experts, m.top_k});
    }
    for (const int tp : {1, 8}) {
      out.heads.push_back({m.vocab / tp, m.hidden});
      add_ffn(out, m.hidden, m.dense_intermediate, tp);
      add_ffn(out, m.hidden, m.shared_intermediate, tp);
      if (m.attention.heads % tp == 0) {
        m.attention.kind == AttentionKind::kMla ? add_mla(out, m.attention, m.hidden, tp)
                                                : add_gqa(out, m.attention, m.hidden, tp);
      }
    }
  }
  sort_unique(out.experts);
  sort_unique(out.projections);
  sort_unique(out.heads);
  return out;
}

}  // namespace epsim::measure
