#include "calibration/cuda/lt_product.cuh"

#include <utility>

namespace epsim::measure {
namespace {

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which, const T& value) {
  cublas_check(cublasLtMatmulDescSetAttribute(product, which, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

cublasLtMatmulAlgo_t choose(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t w,
                            cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t out, std::uint64_t workspace) {
  cublasLtMatmulPreference_t preference = nullptr;
  cublas_check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                       sizeof workspace);
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, product, w, a, out, out, preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) {
    throw MeasureFailed(FailureKind::kUnsupported, "cuBLASLt has no algorithm for this product");
  }
  cublas_check(status, "cublasLtMatmulAlgoGetHeuristic");
  return found.algo;
}

}  // namespace

// cuBLASLt counts columns first, so that row-major w and a are its transposed A and its B, and out is its D.
LtProduct::LtProduct(cublasLtHandle_t handle, const LtShape& s, std::size_t workspace_bytes) : handle_(handle) {
  const auto number = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  cublas_check(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  set(product_, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(product_, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (s.in == CUDA_R_8F_E4M3) {
    set(product_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});  // as engines run it
  }
  cublas_check(cublasLtMatrixLayoutCreate(&w_, s.in, number(s.k), number(s.n), s.k), "cublasLtMatrixLayoutCreate");
  cublas_check(cublasLtMatrixLayoutCreate(&a_, s.in, number(s.k), number(s.rows), s.k), "cublasLtMatrixLayoutCreate");
  cublas_check(cublasLtMatrixLayoutCreate(&out_, s.out, number(s.n), number(s.rows), s.n),
               "cublasLtMatrixLayoutCreate");
  algorithm_ = choose(handle, product_, w_, a_, out_, workspace_bytes);
}

LtProduct::LtProduct(LtProduct&& other) noexcept
    : handle_(other.handle_),
      product_(std::exchange(other.product_, nullptr)),
      w_(std::exchange(other.w_, nullptr)),
      a_(std::exchange(other.a_, nullptr)),
      out_(std::exchange(other.out_, nullptr)),
      algorithm_(other.algorithm_) {}

LtProduct::~LtProduct() {
  for (cublasLtMatrixLayout_t layout : {w_, a_, out_}) {
    if (layout != nullptr) {
      cublasLtMatrixLayoutDestroy(layout);
    }
  }
  if (product_ != nullptr) {
    cublasLtMatmulDescDestroy(product_);
  }
}

void LtProduct::run(const void* a, const void* w, void* out, float alpha, const RawBuffer& workspace,
                    cudaStream_t stream) const {
  const float beta = 0;
  cublas_check(cublasLtMatmul(handle_, product_, &alpha, w, w_, a, a_, &beta, out, out_, out, out_, &algorithm_,
                              workspace.data(), workspace.bytes(), stream),
               "cublasLtMatmul");
}

}  // namespace epsim::measure
