// The MoE FFN in bf16: cuBLAS's grouped product and our own, each with the same activation between.
#include <algorithm>

#include "calibration/cuda/expert_ffn.cuh"
#include "calibration/measure/numbers.h"

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

// Tiles of at most `height` rows, group by group.
std::vector<RowTile> tiles_of(const FfnShape& shape, int height) {
  std::vector<RowTile> out;
  for (std::size_t g = 0; g < shape.rows.size(); ++g) {
    for (std::int64_t r = 0; r < shape.rows[g]; r += height) {
      out.push_back({static_cast<int>(g), static_cast<int>(shape.first[g] + r),
                     static_cast<int>(std::min<std::int64_t>(height, shape.rows[g] - r))});
    }
  }
  return out;
}

class ExpertFfn : public CudaWorkload {
 public:
  ExpertFfn(CudaContext& context, const PlannedPoint& point) : CudaWorkload(context), shape_(point) {
    const auto rows = static_cast<std::size_t>(shape_.all_rows), groups = shape_.rows.size();
    const auto hidden = static_cast<std::size_t>(shape_.hidden), inner = static_cast<std::size_t>(shape_.intermediate);
    gate_up_ = Buffer<Bf16>(rows * 2 * inner);
    act_ = Buffer<Bf16>(rows * inner);
    y_ = Buffer<Bf16>(rows * hidden);
    choose_sets(2.0 * static_cast<double>(rows * hidden + groups * 3 * inner * hidden));
    for (int s = 0; s < sets_; ++s) {
      inputs_.push_back({Buffer<Bf16>(rows * hidden), Buffer<Bf16>(groups * 2 * inner * hidden),
                         Buffer<Bf16>(groups * inner * hidden)});
      const FfnInputs<Bf16>& in = inputs_.back();
      fill_bf16(in.x.data(), in.x.size(), kFfnInputSeed, context.stream);
      fill_bf16(in.gate_up.data(), in.gate_up.size(), kFfnGateUpSeed, context.stream);
      fill_bf16(in.down.data(), in.down.size(), kFfnDownSeed, context.stream);
      first_.emplace_back(shape_, in.x.data(), in.gate_up.data(), gate_up_.data(), 2 * shape_.intermediate,
                          shape_.hidden);
      second_.emplace_back(shape_, act_.data(), in.down.data(), y_.data(), shape_.hidden, shape_.intermediate);
    }
    const std::vector<RowTile> tiles = tiles_of(shape_, tile_rows());
    tiles_ = Buffer<RowTile>(tiles.size());
    cuda_check(cudaMemcpy(tiles_.data(), tiles.data(), tiles_.bytes(), cudaMemcpyHostToDevice), "tiles");
    synchronize();
  }

  std::vector<std::string> kernels() const override {
    return {"cublas_grouped", tile_rows() == 32 ? "mma_grouped_32" : "mma_grouped_128"};
  }

 protected:
  void enqueue(std::size_t kernel, int set) override {
    const auto s = static_cast<std::size_t>(set);
    kernel == 0
        ? first_[s].run(context_.cublas)
        : own(inputs_[s].x.data(), inputs_[s].gate_up.data(), gate_up_.data(), 2 * shape_.intermediate, shape_.hidden);
    silu_mul(gate_up_.data(), act_.data(), shape_.all_rows, shape_.intermediate, context_.stream);
    kernel == 0 ? second_[s].run(context_.cublas)
                : own(act_.data(), inputs_[s].down.data(), y_.data(), shape_.hidden, shape_.intermediate);
  }
  int calls() const override { return 6; }
  void poison() override {
    for (const Buffer<Bf16>* buffer : {&gate_up_, &act_, &y_}) {
      cuda_check(cudaMemsetAsync(buffer->data(), 0xff, buffer->bytes(), context_.stream), "poison");
    }
  }
  CheckReport compare(std::size_t) override {
    cached_row_ = -1;
    const auto at = [this](const Buffer<Bf16>& buffer, std::int64_t width) {
      return [this, &buffer, width](std::int64_t row, std::int64_t column) {
        return static_cast<double>(bf16_value(read(buffer.data(), static_cast<std::size_t>(row * width + column))));
      };
    };
    FfnOutputs out;
    out.gate_up = at(gate_up_, 2 * shape_.intermediate);
    out.act = [this](std::int64_t row, std::int64_t column) { return act_value(row, column); };
    out.y = at(y_, shape_.hidden);
    out.steps = kBf16Steps;
    out.product_bound = out.act_bound = kBf16Bound;
    return check_ffn(shape_, out);
  }

 private:
  // Rows of a tile: short ones where groups have few rows on average.
  int tile_rows() const { return shape_.all_rows <= 32 * shape_.groups() ? 32 : 128; }
  void own(const Bf16* a, const Bf16* w, Bf16* out, int n, int k) {
    grouped_gemm_mma({a, w, out, tiles_.data(), static_cast<int>(tiles_.size()), tile_rows(), n, k}, context_.stream);
  }
  // The check asks for whole rows, one column after the other.
  double act_value(std::int64_t row, std::int64_t column) {
    if (row != cached_row_) {
      const auto width = static_cast<std::size_t>(shape_.intermediate);
      cached_ = read(act_.data(), static_cast<std::size_t>(row) * width, width);
      cached_row_ = row;
    }
    return bf16_value(cached_[static_cast<std::size_t>(column)]);
  }

  FfnShape shape_;
  std::vector<FfnInputs<Bf16>> inputs_;
  std::vector<CublasGroups> first_, second_;
  Buffer<Bf16> gate_up_, act_, y_;
  Buffer<RowTile> tiles_;
  std::vector<Bf16> cached_;
  std::int64_t cached_row_ = -1;
};

}  // namespace

std::unique_ptr<Workload> make_ffn_workload(CudaContext& context, const PlannedPoint& point) {
  return std::make_unique<ExpertFfn>(context, point);
}

}  // namespace epsim::measure
