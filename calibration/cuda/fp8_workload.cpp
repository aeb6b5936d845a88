// The MoE FFN with e4m3 operands: one cuBLASLt product per group, for want of a grouped fp8 product in cuBLAS.
#include <cmath>

#include "calibration/cuda/expert_ffn.cuh"
#include "calibration/cuda/lt_product.cuh"
#include "calibration/measure/numbers.h"

namespace epsim::measure {
namespace {

constexpr float kActScale = 64;  // brings activations of about 0.1 into the middle of e4m3's range

class Fp8Ffn : public CudaWorkload {
 public:
  Fp8Ffn(CudaContext& context, const PlannedPoint& point) : CudaWorkload(context), shape_(point) {
    const auto rows = static_cast<std::size_t>(shape_.all_rows), groups = shape_.rows.size();
    const auto hidden = static_cast<std::size_t>(shape_.hidden), inner = static_cast<std::size_t>(shape_.intermediate);
    gate_up_ = Buffer<Bf16>(rows * 2 * inner);
    act_ = Buffer<std::uint8_t>(rows * inner);
    y_ = Buffer<Bf16>(rows * hidden);
    choose_sets(static_cast<double>(rows * hidden + groups * 3 * inner * hidden));
    for (int s = 0; s < sets_; ++s) {
      inputs_.push_back({Buffer<std::uint8_t>(rows * hidden), Buffer<std::uint8_t>(groups * 2 * inner * hidden),
                         Buffer<std::uint8_t>(groups * inner * hidden)});
      const FfnInputs<std::uint8_t>& in = inputs_.back();
      fill_fp8(in.x.data(), in.x.size(), kFfnInputSeed, context.stream);
      fill_fp8(in.gate_up.data(), in.gate_up.size(), kFfnGateUpSeed, context.stream);
      fill_fp8(in.down.data(), in.down.size(), kFfnDownSeed, context.stream);
    }
    for (const std::int64_t r : shape_.rows) {
      const std::size_t workspace = context.workspace.bytes();
      first_.emplace_back(context.cublas_lt,
                          LtShape{r, 2 * shape_.intermediate, shape_.hidden, CUDA_R_8F_E4M3, CUDA_R_16BF}, workspace);
      second_.emplace_back(context.cublas_lt,
                           LtShape{r, shape_.hidden, shape_.intermediate, CUDA_R_8F_E4M3, CUDA_R_16BF}, workspace);
    }
    synchronize();
  }

  std::vector<std::string> kernels() const override { return {"cublaslt_per_group"}; }

 protected:
  void enqueue(std::size_t, int set) override {
    const FfnInputs<std::uint8_t>& in = inputs_[static_cast<std::size_t>(set)];
    const std::int64_t hidden = shape_.hidden, inner = shape_.intermediate;
    for (std::size_t g = 0; g < shape_.rows.size(); ++g) {
      const auto group = static_cast<std::int64_t>(g);
      first_[g].run(in.x.data() + shape_.first[g] * hidden, in.gate_up.data() + group * 2 * inner * hidden,
                    gate_up_.data() + shape_.first[g] * 2 * inner, gate_up_scale(), context_.workspace,
                    context_.stream);
    }
    silu_mul_fp8(gate_up_.data(), act_.data(), shape_.all_rows, shape_.intermediate, kActScale, context_.stream);
    for (std::size_t g = 0; g < shape_.rows.size(); ++g) {
      const auto group = static_cast<std::int64_t>(g);
      second_[g].run(act_.data() + shape_.first[g] * inner, in.down.data() + group * inner * hidden,
                     y_.data() + shape_.first[g] * hidden, 1 / kActScale, context_.workspace, context_.stream);
    }
  }
  int calls() const override { return 2 * shape_.groups() + 1; }
  void poison() override {
    cuda_check(cudaMemsetAsync(gate_up_.data(), 0xff, gate_up_.bytes(), context_.stream), "poison");
    cuda_check(cudaMemsetAsync(act_.data(), 0xff, act_.bytes(), context_.stream), "poison");
    cuda_check(cudaMemsetAsync(y_.data(), 0xff, y_.bytes(), context_.stream), "poison");
  }
  CheckReport compare(std::size_t) override {
    const auto at = [this](const Buffer<Bf16>& buffer, std::int64_t width) {
      return [this, &buffer, width](std::int64_t row, std::int64_t column) {
        return static_cast<double>(bf16_value(read(buffer.data(), static_cast<std::size_t>(row * width + column))));
      };
    };
    std::int64_t cached_row = -1;
    std::vector<std::uint8_t> cached;
    FfnOutputs out;
    out.gate_up = at(gate_up_, 2 * shape_.intermediate);
    out.act = [&](std::int64_t row, std::int64_t column) {
      const auto width = static_cast<std::size_t>(shape_.intermediate);
      if (row != cached_row) {
        cached = read(act_.data(), static_cast<std::size_t>(row) * width, width);
        cached_row = row;
      }
      return e4m3_value(cached[static_cast<std::size_t>(column)]) / static_cast<double>(kActScale);
    };
    out.y = at(y_, shape_.hidden);
    out.steps = kFp8Steps;
    out.gate_up_scale = gate_up_scale();
    out.product_bound = kFp8Bound;
    out.act_bound = kFp8StorageBound;
    return check_ffn(shape_, out);
  }

 private:
  float gate_up_scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.hidden)); }

  FfnShape shape_;
  std::vector<FfnInputs<std::uint8_t>> inputs_;
  std::vector<LtProduct> first_, second_;
  Buffer<Bf16> gate_up_, y_;
  Buffer<std::uint8_t> act_;
};

}  // namespace

std::unique_ptr<Workload> make_fp8_ffn_workload(CudaContext& context, const PlannedPoint& point) {
  return std::make_unique<Fp8Ffn>(context, point);
}

}  // namespace epsim::measure
