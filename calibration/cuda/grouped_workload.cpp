// The MoE FFN of one GPU's experts, in bf16 or with e4m3 operands. Two ways to do a product over ragged groups, the
// faster of which counts: cuBLAS's grouped call, which has few launches but on an H200 (cuBLAS 13.1) never 0.35 of the
// peak, and one cuBLASLt product per group. cuBLAS has no grouped call for fp8.
#include <cmath>
#include <map>

#include "calibration/cuda/expert_ffn.cuh"
#include "calibration/cuda/lt_product.cuh"
#include "calibration/cuda/operand.cuh"

namespace epsim::measure {
namespace {

// Arguments of cublasGemmGroupedBatchedEx for one product over all groups: shapes on the host, pointers on the device.
class CublasGroups {
 public:
  CublasGroups(const FfnShape& shape, const Bf16* a, const Bf16* w, Bf16* out, int n, int k)
      : trans_(shape.rows.size(), CUBLAS_OP_T),
        plain_(shape.rows.size(), CUBLAS_OP_N),
        n_(shape.rows.size(), n),
        k_(shape.rows.size(), k),
        ones_(shape.rows.size(), 1),
        alpha_(shape.rows.size(), 1.0f),
        beta_(shape.rows.size(), 0.0f) {
    std::vector<void*> pointers;
    for (std::size_t g = 0; g < shape.rows.size(); ++g) {
      rows_.push_back(static_cast<int>(shape.rows[g]));
      pointers.push_back(const_cast<Bf16*>(w + static_cast<std::int64_t>(g) * n * k));
    }
    for (const std::int64_t first : shape.first) {
      pointers.push_back(const_cast<Bf16*>(a + first * k));
    }
    for (const std::int64_t first : shape.first) {
      pointers.push_back(out + first * n);
    }
    pointers_ = Buffer<void*>(pointers.size());
    cuda_check(cudaMemcpy(pointers_.data(), pointers.data(), pointers_.bytes(), cudaMemcpyHostToDevice), "pointers");
  }

  void run(cublasHandle_t handle) const {
    const std::size_t groups = rows_.size();
    cublas_check(
        cublasGemmGroupedBatchedEx(handle, trans_.data(), plain_.data(), n_.data(), rows_.data(), k_.data(),
                                   alpha_.data(), pointers_.data(), CUDA_R_16BF, k_.data(), pointers_.data() + groups,
                                   CUDA_R_16BF, k_.data(), beta_.data(), pointers_.data() + 2 * groups, CUDA_R_16BF,
                                   n_.data(), static_cast<int>(groups), ones_.data(), CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
  }

 private:
  std::vector<cublasOperation_t> trans_, plain_;
  std::vector<int> n_, k_, ones_, rows_;
  std::vector<float> alpha_, beta_;
  Buffer<void*> pointers_;
};

// One cuBLASLt product per group; groups of as many rows share the choice of an algorithm.
template <class T>
class LtGroups {
 public:
  LtGroups(const CudaContext& context, const FfnShape& shape, std::int64_t n, std::int64_t k)
      : context_(context), shape_(shape), n_(n), k_(k) {
    for (const std::int64_t rows : shape.rows) {
      if (!products_.contains(rows)) {
        products_.try_emplace(rows, context.cublas_lt, LtShape{rows, n, k, Operand<T>::kType, CUDA_R_16BF},
                              context.workspace.bytes());
      }
    }
  }

  void run(const T* a, const T* w, Bf16* out, float alpha) const {
    for (std::size_t g = 0; g < shape_.rows.size(); ++g) {
      products_.at(shape_.rows[g])
          .run(a + shape_.first[g] * k_, w + static_cast<std::int64_t>(g) * n_ * k_, out + shape_.first[g] * n_, alpha,
               context_.workspace, context_.stream);
    }
  }

 private:
  const CudaContext& context_;
  const FfnShape& shape_;
  std::int64_t n_, k_;
  std::map<std::int64_t, LtProduct> products_;  // by rows
};

template <class T>
class ExpertFfn : public CudaWorkload {
 public:
  ExpertFfn(CudaContext& context, const PlannedPoint& point)
      : CudaWorkload(context),
        shape_(point),
        gate_up_(size(shape_.all_rows * 2 * shape_.intermediate)),
        act_(size(shape_.all_rows * shape_.intermediate)),
        y_(size(shape_.all_rows * shape_.hidden)),
        lt_first_(context, shape_, 2 * shape_.intermediate, shape_.hidden),
        lt_second_(context, shape_, shape_.hidden, shape_.intermediate) {
    const std::int64_t groups = shape_.groups(), hidden = shape_.hidden, inner = shape_.intermediate;
    choose_sets(static_cast<double>(shape_.all_rows * hidden + groups * 3 * inner * hidden) * sizeof(T));
    for (int s = 0; s < sets_; ++s) {
      inputs_.push_back({Buffer<T>(size(shape_.all_rows * hidden)), Buffer<T>(size(groups * 2 * inner * hidden)),
                         Buffer<T>(size(groups * inner * hidden))});
      const FfnInputs<T>& in = inputs_.back();
      Operand<T>::fill(in.x, kFfnInputSeed, context.stream);
      Operand<T>::fill(in.gate_up, kFfnGateUpSeed, context.stream);
      Operand<T>::fill(in.down, kFfnDownSeed, context.stream);
      if constexpr (!kFp8) {
        first_.emplace_back(shape_, in.x.data(), in.gate_up.data(), gate_up_.data(), 2 * shape_.intermediate,
                            shape_.hidden);
        second_.emplace_back(shape_, act_.data(), in.down.data(), y_.data(), shape_.hidden, shape_.intermediate);
      }
    }
    synchronize();
  }

  std::vector<std::string> kernels() const override {
    return kFp8 ? std::vector<std::string>{"cublaslt_per_group"}
                : std::vector<std::string>{"cublaslt_per_group", "cublas_grouped"};
  }

 protected:
  void enqueue(std::size_t kernel, int set) override {
    const auto s = static_cast<std::size_t>(set);
    if (kernel == 1) {
      first_[s].run(context_.cublas);
      activate();
      second_[s].run(context_.cublas);
      return;
    }
    lt_first_.run(inputs_[s].x.data(), inputs_[s].gate_up.data(), gate_up_.data(), gate_up_scale());
    activate();
    lt_second_.run(act_.data(), inputs_[s].down.data(), y_.data(), 1 / kActScale);
  }
  int calls() const override { return 2 * shape_.groups() + 6; }
  void poison() override {
    const auto spoil = [&](const auto& buffer) {
      cuda_check(cudaMemsetAsync(buffer.data(), 0xff, buffer.bytes(), context_.stream), "poison");
    };
    spoil(gate_up_);
    spoil(act_);
    spoil(y_);
  }
  CheckReport compare(std::size_t) override {
    const auto at = [this](const Buffer<Bf16>& buffer, std::int64_t width) {
      return [this, &buffer, width](std::int64_t row, std::int64_t column) {
        return static_cast<double>(bf16_value(read(buffer.data(), size(row * width + column))));
      };
    };
    std::int64_t cached_row = -1;
    std::vector<T> cached;  // the check asks for whole rows, one column after the other
    FfnOutputs out;
    out.gate_up = at(gate_up_, 2 * shape_.intermediate);
    out.act = [&](std::int64_t row, std::int64_t column) {
      if (row != cached_row) {
        cached = read(act_.data(), size(row * shape_.intermediate), size(shape_.intermediate));
        cached_row = row;
      }
      return Operand<T>::value(cached[size(column)]) / static_cast<double>(kActScale);
    };
    out.y = at(y_, shape_.hidden);
    out.steps = Operand<T>::kSteps;
    out.gate_up_scale = gate_up_scale();
    out.product_bound = Operand<T>::kProductBound;
    out.act_bound = Operand<T>::kStorageBound;
    return check_ffn(shape_, out);
  }

 private:
  static constexpr bool kFp8 = sizeof(T) == 1;
  static constexpr float kActScale = kFp8 ? 64 : 1;  // brings activations of about 0.1 into the middle of e4m3's range
  static std::size_t size(std::int64_t x) { return static_cast<std::size_t>(x); }
  float gate_up_scale() const { return kFp8 ? 1.0f / std::sqrt(static_cast<float>(shape_.hidden)) : 1.0f; }
  void activate() {
    if constexpr (kFp8) {
      silu_mul_fp8(gate_up_.data(), act_.data(), shape_.all_rows, shape_.intermediate, kActScale, context_.stream);
    } else {
      silu_mul(gate_up_.data(), act_.data(), shape_.all_rows, shape_.intermediate, context_.stream);
    }
  }

  FfnShape shape_;
  Buffer<Bf16> gate_up_;
  Buffer<T> act_;
  Buffer<Bf16> y_;
  LtGroups<T> lt_first_, lt_second_;
  std::vector<FfnInputs<T>> inputs_;
  std::vector<CublasGroups> first_, second_;  // by set; none with fp8
};

}  // namespace

std::unique_ptr<Workload> make_ffn_workload(CudaContext& context, const PlannedPoint& point) {
  if (point.op->dtype == "fp8") {
    return std::make_unique<ExpertFfn<std::uint8_t>>(context, point);
  }
  return std::make_unique<ExpertFfn<Bf16>>(context, point);
}

}  // namespace epsim::measure
