#include <algorithm>

#include "calibration/cuda/cuda_check.cuh"
#include "calibration/cuda/kernels.cuh"
#include "calibration/cuda/kernels/attention_decode.cuh"
#include "calibration/cuda/kernels/attention_prefill.cuh"

namespace epsim::measure {
namespace {

constexpr int kLatentRows = 32, kHeadRows = 16;  // query heads that a block of the decode kernel takes

template <int kQk, int kV>
__global__ void __launch_bounds__(kernel::kPrefillThreads) prefill_kernel(PrefillArguments p) {
  extern __shared__ uint4 shared[];
  kernel::attention_prefill<kQk, kV>(p, reinterpret_cast<std::uint16_t*>(shared));
}

template <int kQk, int kV, int kRows, bool kLatent>
__global__ void __launch_bounds__(kernel::kDecodeThreads) decode_kernel(DecodeArguments p) {
  extern __shared__ uint4 shared[];
  kernel::attention_decode<kQk, kV, kRows, kLatent>(p, reinterpret_cast<std::uint16_t*>(shared));
}

template <int kV>
__global__ void combine_kernel(DecodeArguments p) {
  kernel::combine_splits<kV>(p);
}

template <int kQk, int kV>
void launch_prefill(const PrefillArguments& p, int batch, cudaStream_t stream) {
  constexpr int kShared = kernel::kPrefillShared<kQk, kV>;
  cuda_check(cudaFuncSetAttribute(prefill_kernel<kQk, kV>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
             "shared memory of prefill");
  const dim3 grid(static_cast<unsigned>((p.fresh + kernel::kQueries - 1) / kernel::kQueries),
                  static_cast<unsigned>(p.heads), static_cast<unsigned>(batch));
  prefill_kernel<kQk, kV><<<grid, kernel::kPrefillThreads, kShared, stream>>>(p);
  cuda_check(cudaGetLastError(), "prefill");
}

int row_blocks(const DecodeArguments& p, bool latent) {
  const int rows = latent ? kLatentRows : kHeadRows;
  return p.kv_heads * ((p.heads / p.kv_heads + rows - 1) / rows);
}

template <int kQk, int kV, int kRows, bool kLatent>
void launch_decode(const DecodeArguments& p, int batch, cudaStream_t stream) {
  constexpr int kShared = kernel::kDecodeShared<kQk, kV, kRows, kLatent>;
  cuda_check(cudaFuncSetAttribute(decode_kernel<kQk, kV, kRows, kLatent>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  kShared),
             "shared memory of decode");
  const dim3 grid(static_cast<unsigned>(p.splits), static_cast<unsigned>(row_blocks(p, kLatent)),
                  static_cast<unsigned>(batch));
  decode_kernel<kQk, kV, kRows, kLatent><<<grid, kernel::kDecodeThreads, kShared, stream>>>(p);
  cuda_check(cudaGetLastError(), "decode");
  combine_kernel<kV><<<dim3(static_cast<unsigned>(p.heads), static_cast<unsigned>(batch)), 128, 0, stream>>>(p);
  cuda_check(cudaGetLastError(), "combining splits");
}

}  // namespace

bool has_prefill(int qk_dim, int v_dim) {
  return (qk_dim == 64 && v_dim == 64) || (qk_dim == 128 && v_dim == 128) || (qk_dim == 192 && v_dim == 128);
}

bool has_decode(int qk_dim, int v_dim, bool latent) {
  return latent ? qk_dim == 576 && v_dim == 512 : (qk_dim == 64 || qk_dim == 128) && v_dim == qk_dim;
}

void prefill(const PrefillArguments& p, int batch, int qk_dim, int v_dim, cudaStream_t stream) {
  if (!has_prefill(qk_dim, v_dim)) {
    throw MeasureFailed(FailureKind::kUnsupported, "no prefill kernel for these head sizes");
  }
  qk_dim == 64    ? launch_prefill<64, 64>(p, batch, stream)
  : qk_dim == 128 ? launch_prefill<128, 128>(p, batch, stream)
                  : launch_prefill<192, 128>(p, batch, stream);
}

void choose_splits(DecodeArguments& p, int batch, bool latent, int multiprocessors) {
  const int tiles = (p.keys + kernel::kKeys - 1) / kernel::kKeys;
  const int blocks = std::max(1, row_blocks(p, latent) * batch);
  const int wanted = std::clamp((2 * multiprocessors + blocks - 1) / blocks, 1, tiles);
  p.keys_per_split = (tiles + wanted - 1) / wanted * kernel::kKeys;
  p.splits = (p.keys + p.keys_per_split - 1) / p.keys_per_split;
}

void decode(const DecodeArguments& p, int batch, int qk_dim, int v_dim, bool latent, cudaStream_t stream) {
  if (!has_decode(qk_dim, v_dim, latent)) {
    throw MeasureFailed(FailureKind::kUnsupported, "no decode kernel for these head sizes");
  }
  latent         ? launch_decode<576, 512, kLatentRows, true>(p, batch, stream)
  : qk_dim == 64 ? launch_decode<64, 64, kHeadRows, false>(p, batch, stream)
                 : launch_decode<128, 128, kHeadRows, false>(p, batch, stream);
}

}  // namespace epsim::measure
