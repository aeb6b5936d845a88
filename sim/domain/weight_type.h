// What a checkpoint's weights are in, and which parts of the model have that type.
#pragma once

#include <array>

#include "sim/core/choice.h"

namespace epsim {

enum class WeightType {
  kBf16,
  kFp8,    // all but embedding, head and router (DeepSeek-V3's, Qwen3's modules_to_not_convert)
  kFp4,    // nvfp4: FFNs and attention's output projection (model card of nvidia/DeepSeek-R1-0528-FP4-v2)
  kMxfp4,  // routed experts (openai/gpt-oss-120b, modules_to_not_convert)
  kInt4    // routed experts (moonshotai/Kimi-K2.5, quantization_config.ignore)
};
template <>
inline constexpr auto kNames<WeightType> = choice<WeightType>({{"bf16", WeightType::kBf16},
                                                               {"fp8", WeightType::kFp8},
                                                               {"fp4", WeightType::kFp4},
                                                               {"mxfp4", WeightType::kMxfp4},
                                                               {"int4", WeightType::kInt4}});

// Of one weight, with its share of block scales where they count: nvfp4 has an fp8 scale for every 16 (NVIDIA,
// "Introducing NVFP4"), mxfp4 an 8-bit one for every 32 (OCP Microscaling), int4 a bf16 one for every 32 (Kimi-K2.5).
constexpr double bytes_of(WeightType type) {
  constexpr std::array kBytes{2.0, 1.0, 0.5 + 1.0 / 16, 0.5 + 1.0 / 32, 0.5 + 2.0 / 32};
  return kBytes[static_cast<std::size_t>(type)];
}

// A part of a model: attention but for its output projection, that projection, dense layers and shared experts, routed
// experts, and what stays in bf16 (router, embedding, head).
enum class WeightsOf { kAttention, kOutput, kFfn, kExperts, kUnquantised };
inline constexpr std::size_t kWeightParts = 5;

constexpr WeightType type_of(WeightType checkpoint, WeightsOf part) {
  switch (part) {
    case WeightsOf::kAttention:
      return checkpoint == WeightType::kFp8 ? checkpoint : WeightType::kBf16;
    case WeightsOf::kOutput:
    case WeightsOf::kFfn:
      return checkpoint == WeightType::kFp8 || checkpoint == WeightType::kFp4 ? checkpoint : WeightType::kBf16;
    case WeightsOf::kExperts:
      return checkpoint;
    case WeightsOf::kUnquantised:
      break;
  }
  return WeightType::kBf16;
}

// The rate of products with weights of a type, of a GPU's three; 0 where it has none. Weights of int4 are multiplied in
// bf16 (Marlin), and those of mxfp4 too but on GPUs with fp4, which multiply them by activations in mxfp8 at fp8's rate.
constexpr double product_rate(WeightType type, double bf16, double fp8, double fp4) {
  switch (type) {
    case WeightType::kFp8:
      return fp8;
    case WeightType::kFp4:
      return fp4;
    case WeightType::kMxfp4:
      return fp4 > 0 ? fp8 : bf16;
    case WeightType::kBf16:
    case WeightType::kInt4:
      break;
  }
  return bf16;
}

}  // namespace epsim
