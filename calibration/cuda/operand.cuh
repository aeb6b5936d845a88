// What differs between products with bf16 operands and with e4m3 operands, each passed as its raw bits.
#pragma once

#include <cublasLt.h>

#include "calibration/cuda/cuda_check.cuh"
#include "calibration/cuda/kernels.cuh"
#include "calibration/measure/numbers.h"
#include "calibration/measure/reference.h"

namespace epsim::measure {

template <class T>
struct Operand;

template <>
struct Operand<Bf16> {
  static constexpr cudaDataType_t kType = CUDA_R_16BF;
  static constexpr int kSteps = kBf16Steps;                                        // grid of the random inputs
  static constexpr double kProductBound = kBf16Bound, kStorageBound = kBf16Bound;  // relative errors
  static float value(Bf16 bits) { return bf16_value(bits); }
  static void fill(const Buffer<Bf16>& buffer, std::uint64_t seed, cudaStream_t stream) {
    fill_bf16(buffer.data(), buffer.size(), seed, stream);
  }
};

template <>
struct Operand<std::uint8_t> {
  static constexpr cudaDataType_t kType = CUDA_R_8F_E4M3;
  static constexpr int kSteps = kFp8Steps;
  static constexpr double kProductBound = kFp8Bound, kStorageBound = kFp8StorageBound;
  static float value(std::uint8_t bits) { return e4m3_value(bits); }
  static void fill(const Buffer<std::uint8_t>& buffer, std::uint64_t seed, cudaStream_t stream) {
    fill_fp8(buffer.data(), buffer.size(), seed, stream);
  }
};

}  // namespace epsim::measure
