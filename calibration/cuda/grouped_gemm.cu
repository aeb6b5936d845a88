#include "calibration/cuda/cuda_check.cuh"
#include "calibration/cuda/kernels.cuh"
#include "calibration/cuda/kernels/grouped_gemm.cuh"

namespace epsim::measure {
namespace {

template <int kRows>
__global__ void __launch_bounds__(kernel::kGemmThreads, kRows == 128 ? 2 : 3) grouped(kernel::GroupedArguments g) {
  extern __shared__ uint4 shared[];
  kernel::grouped_gemm<kRows>(g, reinterpret_cast<std::uint16_t*>(shared));
}

template <int kRows>
void launch(const GroupedGemm& p, cudaStream_t stream) {
  constexpr int kShared = kernel::kGroupedShared<kRows>;
  cuda_check(cudaFuncSetAttribute(grouped<kRows>, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
             "shared memory of the grouped product");
  const dim3 grid(static_cast<unsigned>((p.n + kernel::kTileColumns - 1) / kernel::kTileColumns),
                  static_cast<unsigned>(p.tile_count));
  grouped<kRows><<<grid, kernel::kGemmThreads, kShared, stream>>>({p.a, p.w, p.out, p.tiles, p.n, p.k});
  cuda_check(cudaGetLastError(), "grouped product");
}

}  // namespace

void grouped_gemm_mma(const GroupedGemm& product, cudaStream_t stream) {
  if (product.k % kernel::kTileDepth != 0 || product.n % 2 != 0 || product.tile_count > 65535) {
    throw MeasureFailed(FailureKind::kUnsupported, "the grouped kernel needs k in 32s, even n and at most 65535 tiles");
  }
  if (product.tile_count > 0) {
    product.tile_rows == 32 ? launch<32>(product, stream) : launch<128>(product, stream);
  }
}

}  // namespace epsim::measure
