// A point to measure, and what came of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibration/measure/ops.h"
#include "calibration/measure/stop_rule.h"

namespace epsim::measure {

struct PlannedPoint {
  const OpSpec* op = nullptr;
  std::vector<double> values;      // in the order of op->columns
  std::vector<std::int64_t> rows;  // grouped GEMM only: rows of each group
  Seconds predicted{};             // of one execution, by the roofline of sweep_plan.h
  Seconds cost{};                  // of measuring it: preparation, warm-up, repeats

  double value(std::string_view column) const { return value_of(*op, values, column); }
  // "gemm m=16 n=7168 k=2048": tells points apart, and stands in messages and in resumed files.
  std::string key() const;
};

enum class Outcome { kMeasured, kWaived, kFailed };

// Why a point has no time. kOutOfMemory, kLaunch and kWrongResult are failures; kUnsupported waives the point.
enum class FailureKind { kOutOfMemory, kLaunch, kWrongResult, kUnsupported };
std::string_view name_of(FailureKind kind);

struct KernelTime {
  std::string kernel;
  Interval time_s;
  int repeats = 0;         // samples
  int batch = 1;           // executions in each
  double check_error = 0;  // relative L2 error of the sampled outputs against the float64 reference; 0 where data are
                           // compared bit by bit
};

struct PointResult {
  Outcome outcome = Outcome::kMeasured;
  FailureKind failure = FailureKind::kUnsupported;  // unless measured
  std::string reason;                               // unless measured
  std::vector<KernelTime> kernels;                  // every way that worked, at least one when measured
  std::vector<std::string> lost;                    // "kernel: why" of ways that failed while another worked
  std::size_t best = 0;                             // of `kernels`, by its median
  double sm_mhz = 0;                                // 0: not known
  std::uint64_t throttle = 0;                       // NVML's reasons, during the point
};

}  // namespace epsim::measure
