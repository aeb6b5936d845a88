#include "calibration/measure/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "calibration/measure/numbers.h"

namespace epsim::measure {

void OutputError::add(double output, double expected, const std::string& where) {
  ++count_;
  const double error = std::isfinite(output) ? std::abs(output - expected) : std::numeric_limits<double>::infinity();
  error_squares_ += error * error;
  expected_squares_ += expected * expected;
  if (error > worst_) {
    worst_ = error;
    worst_at_ = fmt::format("worst at {}: {:.6g}, expected {:.6g}", where, output, expected);
  }
}

double OutputError::relative() const {
  if (count_ == 0 || (expected_squares_ == 0 && error_squares_ > 0)) {
    return std::numeric_limits<double>::infinity();
  }
  return error_squares_ == 0 ? 0 : std::sqrt(error_squares_ / expected_squares_);
}

CheckReport OutputError::report(double bound) const { return {relative(), bound, worst_at_}; }

std::vector<Sample> sample_outputs(std::int64_t rows, std::int64_t columns, int count, std::uint64_t seed) {
  if (rows <= 0 || columns <= 0) {
    return {};
  }
  std::vector<Sample> out = {{0, 0}, {0, columns - 1}, {rows - 1, 0}, {rows - 1, columns - 1}};
  for (std::uint64_t i = 0; static_cast<int>(out.size()) < count; ++i) {
    out.push_back({static_cast<std::int64_t>(mix_bits(seed + 2 * i) % static_cast<std::uint64_t>(rows)),
                   static_cast<std::int64_t>(mix_bits(seed + 2 * i + 1) % static_cast<std::uint64_t>(columns))});
  }
  return out;
}

double dot_reference(std::int64_t length, const std::function<double(std::int64_t)>& a,
                     const std::function<double(std::int64_t)>& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    sum += a(i) * b(i);
  }
  return sum;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

}  // namespace epsim::measure
