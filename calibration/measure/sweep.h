// Works through a plan: measures point by point within the time there is, keeps what it has, tells how far it is.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "calibration/measure/device.h"
#include "calibration/measure/results.h"

namespace epsim::measure {

struct SweepOptions {
  StopRule rule;
  Seconds budget{1200};          // of wall time for the whole sweep
  Seconds checkpoint_every{10};  // of wall time between two writes of the file
  std::filesystem::path output;
  std::function<bool()> interrupted = [] { return false; };
  std::function<void(const std::string&)> say = [](const std::string&) {};  // one line per call
};

enum class SweepEnd { kDone, kBudget, kInterrupted };

struct SweepSummary {
  SweepEnd end = SweepEnd::kDone;
  std::size_t planned = 0, already = 0, measured = 0, failed = 0, waived = 0, left = 0;
};

// How long the rest takes: the planned cost, corrected per operator by how long its points took so far.
class RemainingTime {
 public:
  explicit RemainingTime(std::span<const PlannedPoint* const> points);
  void finished(const PlannedPoint& point, Seconds took);
  Seconds left() const;

 private:
  struct PerOp {
    Seconds planned_left{0}, planned_done{0}, took{0};
  };
  std::map<std::string, PerOp> ops_;
};

// Points that `results` has are not measured again; those that failed before come last. Results are written to
// options.output every checkpoint_every and at the end, also on Ctrl-C and when an exception passes through; a failed
// write, or a device that a point has left unusable, is RunFailed. The point under way is finished first when
// interrupted.
SweepSummary run_sweep(Device& device, const Clock& clock, std::span<const PlannedPoint> plan,
                       const SweepOptions& options, Results& results);

// "gemm m=16 n=7168 k=2048: 12.3 us +-1.1 % (cublaslt), 212 TFLOP/s, 21 % of peak" or the reason that there is no time.
std::string describe(const PlannedPoint& point, const PointResult& result, const GpuFacts& facts);

}  // namespace epsim::measure
