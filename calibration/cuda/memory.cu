#include "calibration/cuda/cuda_check.cuh"
#include "calibration/cuda/kernels.cuh"
#include "calibration/measure/numbers.h"

namespace epsim::measure {
namespace {

constexpr int kThreads = 256;

__device__ std::size_t first_index() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::size_t stride() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

int blocks_for(std::size_t count) {
  const std::size_t wanted = (count + kThreads - 1) / kThreads;
  return static_cast<int>(wanted < 1 ? 1 : wanted > 8192 ? 8192 : wanted);
}

__global__ void fill_bf16_kernel(Bf16* out, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    out[i] = bf16_bits(random_value(seed, i, kBf16Steps));
  }
}

__global__ void fill_fp8_kernel(std::uint8_t* out, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    out[i] = e4m3_bits(random_value(seed, i, kFp8Steps));
  }
}

__global__ void fill_floats_kernel(float* out, std::size_t count, std::uint64_t seed, int steps) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    out[i] = random_value(seed, i, steps);
  }
}

__global__ void fill_words_kernel(std::uint64_t* out, std::size_t count, std::uint64_t seed) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    out[i] = mix_bits(seed + i);
  }
}

__global__ void spin(std::int64_t nanoseconds) {
  std::int64_t start = 0, now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

}  // namespace

void fill_bf16(Bf16* out, std::size_t count, std::uint64_t seed, cudaStream_t stream) {
  fill_bf16_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, count, seed);
  cuda_check(cudaGetLastError(), "fill_bf16");
}

void fill_fp8(std::uint8_t* out, std::size_t count, std::uint64_t seed, cudaStream_t stream) {
  fill_fp8_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, count, seed);
  cuda_check(cudaGetLastError(), "fill_fp8");
}

void fill_floats(float* out, std::size_t count, std::uint64_t seed, int steps, cudaStream_t stream) {
  fill_floats_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, count, seed, steps);
  cuda_check(cudaGetLastError(), "fill_floats");
}

void fill_words(std::uint64_t* out, std::size_t count, std::uint64_t seed, cudaStream_t stream) {
  fill_words_kernel<<<blocks_for(count), kThreads, 0, stream>>>(out, count, seed);
  cuda_check(cudaGetLastError(), "fill_words");
}

void spin_kernel(std::int64_t nanoseconds, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(nanoseconds);
  cuda_check(cudaGetLastError(), "spin kernel");
}

}  // namespace epsim::measure
