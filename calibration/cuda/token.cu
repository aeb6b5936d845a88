#include "calibration/cuda/cuda_check.cuh"
#include "calibration/cuda/kernels.cuh"
#include "calibration/cuda/kernels/token.cuh"

namespace epsim::measure {
namespace {

constexpr int kThreads = kernel::kTokenThreads;

__global__ void silu_mul_kernel(const Bf16* in, Bf16* out, std::int64_t rows, int width) {
  kernel::silu_mul(in, out, rows, width);
}
__global__ void silu_mul_fp8_kernel(const Bf16* in, std::uint8_t* out, std::int64_t rows, int width, float scale) {
  kernel::silu_mul_fp8(in, out, rows, width, scale);
}
__global__ void rms_norm_kernel(const Bf16* in, const Bf16* weight, Bf16* out, int width) {
  __shared__ float shared[kThreads / 32];
  kernel::rms_norm(in, weight, out, width, shared);
}
__global__ void top_k_kernel(const float* logits, std::int32_t* experts, float* weights, int tokens, int count, int k) {
  kernel::top_k(logits, experts, weights, tokens, count, k);
}
__global__ void permute_kernel(const Bf16* in, const std::int32_t* place, Bf16* out, int width, int k) {
  kernel::permute(in, place, out, width, k);
}
__global__ void unpermute_kernel(const Bf16* in, const std::int32_t* place, const float* weights, Bf16* out, int width,
                                 int k) {
  kernel::unpermute(in, place, weights, out, width, k);
}

unsigned blocks_for(std::int64_t threads) {
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65536 ? 65536 : blocks);
}

void launched(const char* what) { cuda_check(cudaGetLastError(), what); }

}  // namespace

void silu_mul(const Bf16* in, Bf16* out, std::int64_t rows, int width, cudaStream_t stream) {
  silu_mul_kernel<<<blocks_for(rows * (width / 8)), kThreads, 0, stream>>>(in, out, rows, width);
  launched("silu_mul");
}

void silu_mul_fp8(const Bf16* in, std::uint8_t* out, std::int64_t rows, int width, float scale, cudaStream_t stream) {
  silu_mul_fp8_kernel<<<blocks_for(rows * width), kThreads, 0, stream>>>(in, out, rows, width, scale);
  launched("silu_mul_fp8");
}

void rms_norm(const Bf16* in, const Bf16* weight, Bf16* out, std::int64_t rows, int width, cudaStream_t stream) {
  rms_norm_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(in, weight, out, width);
  launched("rms_norm");
}

void top_k(const float* logits, std::int32_t* experts, float* weights, int tokens, int count, int k,
           cudaStream_t stream) {
  if (count > kernel::kMostExperts || k > 32) {
    throw MeasureFailed(FailureKind::kUnsupported, "the top-k kernel takes at most 512 experts and a top_k of 32");
  }
  top_k_kernel<<<static_cast<unsigned>((tokens + kThreads / 32 - 1) / (kThreads / 32)), kThreads, 0, stream>>>(
      logits, experts, weights, tokens, count, k);
  launched("top_k");
}

void permute(const Bf16* in, const std::int32_t* place, Bf16* out, int tokens, int width, int k, cudaStream_t stream) {
  permute_kernel<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(in, place, out, width, k);
  launched("permute");
}

void unpermute(const Bf16* in, const std::int32_t* place, const float* weights, Bf16* out, int tokens, int width, int k,
               cudaStream_t stream) {
  unpermute_kernel<<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(in, place, weights, out, width, k);
  launched("unpermute");
}

}  // namespace epsim::measure
