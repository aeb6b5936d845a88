// What the kernels of this folder do, as functions that put one execution on a stream. bf16 and fp8 are passed as their
// raw bits. A launch that fails throws MeasureFailed. Pointers are to device memory and aligned to 16 bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace epsim::measure {

using Bf16 = std::uint16_t;

// Element i becomes random_value(seed, i, steps) of calibration/measure/numbers.h.
void fill_bf16(Bf16* out, std::size_t count, std::uint64_t seed, cudaStream_t stream);
void fill_fp8(std::uint8_t* out, std::size_t count, std::uint64_t seed, cudaStream_t stream);
void fill_floats(float* out, std::size_t count, std::uint64_t seed, int steps, cudaStream_t stream);
// Element i becomes mix_bits(seed + i).
void fill_words(std::uint64_t* out, std::size_t count, std::uint64_t seed, cudaStream_t stream);

// Keeps the stream busy, so that the host can queue what is to be timed behind it.
void spin_kernel(std::int64_t nanoseconds, cudaStream_t stream);

// --- tokens (token.cu); shapes as in kernels/token.cuh --------------------------------------------------------------
void silu_mul(const Bf16* in, Bf16* out, std::int64_t rows, int width, cudaStream_t stream);
void silu_mul_fp8(const Bf16* in, std::uint8_t* out, std::int64_t rows, int width, float scale, cudaStream_t stream);
void rms_norm(const Bf16* in, const Bf16* weight, Bf16* out, std::int64_t rows, int width, cudaStream_t stream);
void top_k(const float* logits, std::int32_t* experts, float* weights, int tokens, int count, int k,
           cudaStream_t stream);
void permute(const Bf16* in, const std::int32_t* place, Bf16* out, int tokens, int width, int k, cudaStream_t stream);
void unpermute(const Bf16* in, const std::int32_t* place, const float* weights, Bf16* out, int tokens, int width, int k,
               cudaStream_t stream);

}  // namespace epsim::measure
