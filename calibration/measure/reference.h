// Expected results in float64, for sampled outputs, from the inputs that numbers.h defines; and how far outputs are.
//   Bounds : bf16 rounds an output by 2^-9 at most and matrix units add in float32, so 0.4 % of the outputs' norm holds
//            both; Hopper's fp8 units keep about 14 bits of a sum (DeepSeek-V3 technical report, section 3.3.2), which
//            1 % holds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibration/measure/device.h"

namespace epsim::measure {

inline constexpr double kBf16Bound = 4e-3;
inline constexpr double kFp8Bound = 1e-2;
inline constexpr double kFp8StorageBound = 5e-2;  // of a value stored with three bits of mantissa

// Relative L2 error of the outputs seen so far, and the worst of them. An output that is not finite makes it infinite.
class OutputError {
 public:
  void add(double output, double expected, const std::string& where);
  double relative() const;
  std::size_t count() const { return count_; }
  // Of no output at all the error is infinite: a check that looks at nothing passes nothing.
  CheckReport report(double bound) const;

 private:
  double error_squares_ = 0, expected_squares_ = 0, worst_ = -1;
  std::size_t count_ = 0;
  std::string worst_at_;
};

// `count` row and column numbers of a rows x columns matrix: its corners, then random ones.
struct Sample {
  std::int64_t row = 0, column = 0;
};
std::vector<Sample> sample_outputs(std::int64_t rows, std::int64_t columns, int count, std::uint64_t seed);

// Sum over i of a(i) * b(i).
double dot_reference(std::int64_t length, const std::function<double(std::int64_t)>& a,
                     const std::function<double(std::int64_t)>& b);
double silu(double x);

}  // namespace epsim::measure
