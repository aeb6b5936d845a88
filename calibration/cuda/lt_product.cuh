// out = alpha a w^T through cuBLASLt, with the algorithm that its heuristic puts first.
//   Layout : a rows x k, w n x k, out rows x n, all row-major; a and w bf16 or e4m3, out bf16 or float.
#pragma once

#include <cublasLt.h>

#include "calibration/cuda/cuda_check.cuh"

namespace epsim::measure {

struct LtShape {
  std::int64_t rows = 0, n = 0, k = 0;
  cudaDataType_t in = CUDA_R_16BF, out = CUDA_R_16BF;
};

class LtProduct {
 public:
  // Throws MeasureFailed(kUnsupported) when cuBLASLt has no algorithm for the shape.
  LtProduct(cublasLtHandle_t handle, const LtShape& shape, std::size_t workspace_bytes);
  ~LtProduct();
  LtProduct(LtProduct&& other) noexcept;
  LtProduct& operator=(LtProduct&&) = delete;
  LtProduct(const LtProduct&) = delete;

  void run(const void* a, const void* w, void* out, float alpha, const RawBuffer& workspace, cudaStream_t stream) const;

 private:
  cublasLtHandle_t handle_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, a_ = nullptr, out_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace epsim::measure
