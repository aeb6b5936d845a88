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
// Element i becomes mix_bits(seed + i).
void fill_words(std::uint64_t* out, std::size_t count, std::uint64_t seed, cudaStream_t stream);

void empty_kernel(cudaStream_t stream);
// Keeps the stream busy, so that the host can queue what is to be timed behind it.
void spin_kernel(std::int64_t nanoseconds, cudaStream_t stream);
// Sum (modulo 2^64) of `count` words, one partial sum per block into `partial` (kReadBlocks of them).
inline constexpr int kReadBlocks = 2048;
void sum_words(const std::uint64_t* in, std::size_t count, std::uint64_t* partial, cudaStream_t stream);

}  // namespace epsim::measure
