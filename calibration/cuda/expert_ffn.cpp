#include "calibration/cuda/expert_ffn.cuh"

#include <algorithm>

#include "calibration/measure/numbers.h"

namespace epsim::measure {

FfnShape::FfnShape(const PlannedPoint& point)
    : hidden(static_cast<int>(point.value("hidden"))), intermediate(static_cast<int>(point.value("intermediate"))) {
  for (const std::int64_t r : point.rows) {
    if (r > 0) {
      rows.push_back(r);
      first.push_back(all_rows);
      all_rows += r;
    }
  }
}

std::size_t FfnShape::group_of(std::int64_t row) const {
  return static_cast<std::size_t>(std::upper_bound(first.begin(), first.end(), row) - first.begin()) - 1;
}

namespace {

constexpr int kSamples = 24;

double drawn(std::uint64_t seed, std::int64_t index, int steps) {
  return random_value(seed, static_cast<std::uint64_t>(index), steps);
}

OutputError check_gate_up(const FfnShape& s, const FfnOutputs& o) {
  OutputError error;
  const std::int64_t width = 2 * s.intermediate;
  for (const Sample& at : sample_outputs(s.all_rows, width, kSamples, 1)) {
    const auto line = (static_cast<std::int64_t>(s.group_of(at.row)) * width + at.column) * s.hidden;
    const double sum = dot_reference(
        s.hidden, [&](auto i) { return drawn(kFfnInputSeed, at.row * s.hidden + i, o.steps); },
        [&](auto i) { return drawn(kFfnGateUpSeed, line + i, o.steps); });
    error.add(o.gate_up(at.row, at.column), sum * o.gate_up_scale, "gate_up row " + std::to_string(at.row));
  }
  return error;
}

OutputError check_activation(const FfnShape& s, const FfnOutputs& o) {
  OutputError error;
  for (const Sample& at : sample_outputs(s.all_rows, s.intermediate, kSamples, 2)) {
    const double expected = silu(o.gate_up(at.row, at.column)) * o.gate_up(at.row, s.intermediate + at.column);
    error.add(o.act(at.row, at.column), expected, "activation row " + std::to_string(at.row));
  }
  return error;
}

OutputError check_down(const FfnShape& s, const FfnOutputs& o) {
  OutputError error;
  for (const Sample& at : sample_outputs(s.all_rows, s.hidden, 8, 3)) {
    const auto line = (static_cast<std::int64_t>(s.group_of(at.row)) * s.hidden + at.column) * s.intermediate;
    const double sum = dot_reference(
        s.intermediate, [&](auto i) { return o.act(at.row, i); },
        [&](auto i) { return drawn(kFfnDownSeed, line + i, o.steps); });
    error.add(o.y(at.row, at.column), sum, "down row " + std::to_string(at.row));
  }
  return error;
}

}  // namespace

CheckReport check_ffn(const FfnShape& shape, const FfnOutputs& outputs) {
  const CheckReport reports[] = {check_gate_up(shape, outputs).report(outputs.product_bound),
                                 check_activation(shape, outputs).report(outputs.act_bound),
                                 check_down(shape, outputs).report(outputs.product_bound)};
  // The stage that is worst against its own bound.
  return *std::max_element(std::begin(reports), std::end(reports), [](const CheckReport& a, const CheckReport& b) {
    return a.error / a.bound < b.error / b.bound;
  });
}

}  // namespace epsim::measure
