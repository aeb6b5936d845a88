// Dense products.
#include "calibration/cuda/lt_product.cuh"
#include "calibration/cuda/operand.cuh"
#include "calibration/cuda/workload.cuh"

namespace epsim::measure {
namespace {

constexpr std::uint64_t kInputSeed = 31, kWeightSeed = 32;

// Product of random matrices over rotating sets; T is the raw type of the operands.
template <class T>
class Gemm : public CudaWorkload {
 public:
  Gemm(CudaContext& context, std::int64_t m, std::int64_t n, std::int64_t k)
      : CudaWorkload(context),
        m_(m),
        n_(n),
        k_(k),
        out_(static_cast<std::size_t>(m * n)),
        product_(context.cublas_lt, {m, n, k, Operand<T>::kType, CUDA_R_16BF}, context.workspace.bytes()) {
    choose_sets(static_cast<double>(m + n) * static_cast<double>(k) * sizeof(T));
    for (int s = 0; s < sets_; ++s) {
      a_.emplace_back(static_cast<std::size_t>(m * k));
      w_.emplace_back(static_cast<std::size_t>(n * k));
      Operand<T>::fill(a_.back(), kInputSeed, context.stream);
      Operand<T>::fill(w_.back(), kWeightSeed, context.stream);
    }
    synchronize();
  }
  std::vector<std::string> kernels() const override { return {"cublaslt"}; }

 protected:
  void enqueue(std::size_t, int set) override {
    const auto s = static_cast<std::size_t>(set);
    product_.run(a_[s].data(), w_[s].data(), out_.data(), 1.0f, context_.workspace, context_.stream);
  }
  void poison() override { cuda_check(cudaMemsetAsync(out_.data(), 0xff, out_.bytes(), context_.stream), "poison"); }
  CheckReport compare(std::size_t) override {
    OutputError error;
    for (const Sample& at : sample_outputs(m_, n_, 32, 1)) {
      const auto drawn = [](std::uint64_t seed, std::int64_t i) {
        return static_cast<double>(random_value(seed, static_cast<std::uint64_t>(i), Operand<T>::kSteps));
      };
      const double expected = dot_reference(
          k_, [&](auto i) { return drawn(kInputSeed, at.row * k_ + i); },
          [&](auto i) { return drawn(kWeightSeed, at.column * k_ + i); });
      const Bf16 bits = read(out_.data(), static_cast<std::size_t>(at.row * n_ + at.column));
      error.add(bf16_value(bits), expected, "row " + std::to_string(at.row) + " column " + std::to_string(at.column));
    }
    return error.report(Operand<T>::kProductBound);
  }

 private:
  std::int64_t m_, n_, k_;
  Buffer<Bf16> out_;
  std::vector<Buffer<T>> a_, w_;
  LtProduct product_;
};

}  // namespace

std::unique_ptr<Workload> make_gemm_workload(CudaContext& context, const PlannedPoint& point) {
  const auto side = [&](const char* name) { return static_cast<std::int64_t>(point.value(name)); };
  if (point.op->dtype == "fp8") {
    return std::make_unique<Gemm<std::uint8_t>>(context, side("m"), side("n"), side("k"));
  }
  return std::make_unique<Gemm<Bf16>>(context, side("m"), side("n"), side("k"));
}

}  // namespace epsim::measure
