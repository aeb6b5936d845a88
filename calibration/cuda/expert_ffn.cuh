// One GPU's experts of one layer, as engines run them: gate and up in one grouped product, SiLU times, down in another.
#pragma once

#include "calibration/cuda/workload.cuh"

namespace epsim::measure {

// Groups without rows are left out, as engines do; the rest are numbered anew.
struct FfnShape {
  std::vector<std::int64_t> rows;   // of each group that has any
  std::vector<std::int64_t> first;  // where they begin
  std::int64_t all_rows = 0;
  int hidden = 0, intermediate = 0;

  explicit FfnShape(const PlannedPoint& point);
  int groups() const { return static_cast<int>(rows.size()); }
  // The group of a row.
  std::size_t group_of(std::int64_t row) const;
};

// Inputs of one rotating set, filled with random numbers; T is the raw type of the operands.
template <class T>
struct FfnInputs {
  Buffer<T> x, gate_up, down;  // rows x hidden, groups x 2 intermediate x hidden, groups x hidden x intermediate
};

// Compares samples of each stage with float64, each from what the stage before it really put out, so that no error of
// one is charged to another. `act` and its value in float come from the caller, because its type differs.
struct FfnOutputs {
  std::function<double(std::int64_t row, std::int64_t column)> gate_up, act, y;
  int steps = 0;             // grid of the random inputs: kBf16Steps or kFp8Steps
  double gate_up_scale = 1;  // of the products
  double product_bound = 0, act_bound = 0;
};
CheckReport check_ffn(const FfnShape& shape, const FfnOutputs& outputs);

inline constexpr std::uint64_t kFfnInputSeed = 21, kFfnGateUpSeed = 22, kFfnDownSeed = 23;

std::unique_ptr<Workload> make_ffn_workload(CudaContext& context, const PlannedPoint& point);

}  // namespace epsim::measure
