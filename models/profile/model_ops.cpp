#include "models/profile/model_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "models/profile/op_shapes.h"

namespace epsim {
namespace {

constexpr std::array kDenseParts{WeightsOf::kAttention, WeightsOf::kOutput, WeightsOf::kFfn, WeightsOf::kUnquantised};

bool is_deepseek_mla(const AttentionSpec& a) {
  return a.kv_lora_rank == 512 && a.qk_nope_head_dim == 128 && a.qk_rope_head_dim == 64 && a.v_head_dim == 128;
}

std::string attention_op(const MoeSpec& model, std::string_view phase, WeightType cache) {
  const AttentionSpec& a = model.attention;
  const bool mla = a.kind == AttentionKind::kMla;
  if (mla && !is_deepseek_mla(a)) {
    return "";
  }
  const std::string width = mla || a.head_dim == 128 ? "" : fmt::format("_{}", a.head_dim);
  return fmt::format("{}_{}{}{}", mla ? "mla" : "gqa", phase, width, dtype_of(cache).suffix);
}

WeightType cache_of(const MoeSpec& model) { return model.bytes_per_kv == 1 ? WeightType::kFp8 : WeightType::kBf16; }

}  // namespace

std::string dense_op(const MoeSpec& model, WeightsOf part) {
  return fmt::format("dense_gemm{}", dtype_of(model.weights_of(part)).suffix);
}
std::string experts_op(const MoeSpec& model) { return fmt::format("grouped_gemm{}", dtype_of(model.dtype).suffix); }
std::string prefill_op(const MoeSpec& model, const FittedProfile& fits) {
  const std::string own = attention_op(model, "prefill", cache_of(model));
  return fits.find(own) != nullptr ? own : attention_op(model, "prefill", WeightType::kBf16);
}
std::string decode_op(const MoeSpec& model) { return attention_op(model, "decode", cache_of(model)); }

bool has_kernels(const FittedProfile* fits, const GpuSpec& gpu, const MoeSpec& model) {
  return model.dtype == WeightType::kBf16 ||
         (fits != nullptr && fits->find(dense_op(model, WeightsOf::kFfn)) != nullptr &&
          (model.dense() || fits->find(experts_op(model)) != nullptr) && gpu.product_rate(model.dtype).count() > 0);
}

bool asks_for(const MoeSpec& model, std::string_view op, const FittedProfile& fits) {
  const OpInfo* info = find_op_info(op);
  if (info == nullptr || info->kind >= OpKind::kGate) {
    return info != nullptr;
  }
  return (op == experts_op(model) && !model.dense()) || op == prefill_op(model, fits) || op == decode_op(model) ||
         std::any_of(kDenseParts.begin(), kDenseParts.end(), [&](WeightsOf p) { return op == dense_op(model, p); });
}

}  // namespace epsim
