#include "traces/routing_model/count_rounding.h"

#include <algorithm>

#include "sim/core/check.h"
#include "traces/routing_model/byte_gaussian.h"

namespace epsim {

namespace {

// Rounds down what has come together so far, and carries the rest on.
FloatX4 take_whole(FloatX4 x, FloatX4& carry) {
  x += carry;
  const FloatX4 whole = __builtin_convertvector(__builtin_convertvector(x, IntX4), FloatX4);
  carry = x - whole;
  return whole;
}

}  // namespace

void round_counts(std::span<const float> row, float scale, std::int64_t total, float most, std::size_t start,
                  std::span<float> out) {
  const FloatX4 zero{};
  FloatX4 carry_a = zero + 0.5F, carry_b = carry_a, sums{};
  const std::size_t half = row.size() / (2 * kLanes) * kLanes;  // two chains at once hide their latency
  const std::size_t whole = out.size() / kLanes * kLanes;
  FloatX4 last{};
  for (std::size_t at = 0; at < half; at += kLanes) {
    const FloatX4 a = take_whole(load_x4(row.data() + at) * scale, carry_a);
    const FloatX4 b = take_whole(load_x4(row.data() + at + half) * scale, carry_b);
    sums += a + b;
    store_x4(out.data() + at, a);
    if (at + half < whole) {
      store_x4(out.data() + at + half, b);
    } else {
      last = b;
    }
  }
  if (2 * half < row.size()) {
    last = take_whole(load_x4(row.data() + 2 * half) * scale, carry_a);
    sums += last;
  }
  if (2 * half < row.size() || whole < 2 * half) {  // the last block may stick out of the row
    const std::size_t at = row.size() - kLanes;
    for (std::size_t e = at; e < out.size(); ++e) {
      out[e] = last[e - at];
    }
  }
  auto left = total - static_cast<std::int64_t>(sums[0] + sums[1] + sums[2] + sums[3]);
  std::size_t idle = 0;  // values in a row that could not take anything
  for (std::size_t e = start % out.size(); left != 0 && idle <= out.size(); e = e + 1 == out.size() ? 0 : e + 1) {
    const float step = left > 0 ? 1.0F : -1.0F;
    const bool takes = row[e] > 0 && out[e] + step >= 0 && out[e] + step <= most;
    idle = takes ? 0 : idle + 1;
    out[e] += takes ? step : 0.0F;
    left -= takes ? static_cast<std::int64_t>(step) : 0;
  }
  EPSIM_CHECK(left == 0, "a row of counts could not be made to sum up");
}

}  // namespace epsim
