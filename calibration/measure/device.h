// What the measuring loop asks of hardware: few calls, so that a simulated device can stand in for a real one.
#pragma once

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "calibration/measure/point.h"

namespace epsim::measure {

// A point that cannot be measured. The message is the reason that is recorded.
struct MeasureFailed : std::runtime_error {
  MeasureFailed(FailureKind what, const std::string& reason) : std::runtime_error(reason), kind(what) {}
  FailureKind kind;
};

struct GpuFacts {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int gpus = 1;  // on this node
  int nodes = 1;
  Bytes memory{}, l2{};
  double clock_mhz = 0, memory_clock_mhz = 0;  // as the driver states them; memory_clock_mhz before doubling
  int memory_bus_bits = 0;

  FlopsPerSecond peak(std::string_view dtype) const;  // dense tensor-core peak at `clock_mhz`; 0 = not known, or none
  BytesPerSecond memory_peak() const;
  bool has_fp8() const { return compute_major * 10 + compute_minor >= 89; }
};

struct ClockState {
  double sm_mhz = 0;           // 0: not known
  std::uint64_t throttle = 0;  // bits of nvmlClocksEventReasons, idle left out
};

// How far outputs are from the reference, and how far they may be.
struct CheckReport {
  double error = 0, bound = 0;
  std::string detail;                           // the worst output, for the message of a failure
  bool good() const { return error <= bound; }  // NaN is not good
};

// One point made ready: memory allocated, inputs drawn.
class Workload {
 public:
  virtual ~Workload() = default;
  // Ways to do the work, at least one. Each is timed and checked on its own.
  virtual std::vector<std::string> kernels() const = 0;
  // Seconds, by the device's own timer, of `launches` executions one after another over rotating buffers.
  virtual Seconds time(std::size_t kernel, int launches) = 0;
  // Poisons the outputs, executes once and compares sampled outputs with the float64 reference.
  virtual CheckReport check(std::size_t kernel) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const GpuFacts& facts() const = 0;
  // Why this machine cannot do an operator at all ("needs 2 GPUs"); nullopt when it can.
  virtual std::optional<std::string> waived(const OpSpec& op) const = 0;
  // All of these throw MeasureFailed.
  virtual std::unique_ptr<Workload> prepare(const PlannedPoint& point) = 0;
  virtual ClockState clocks() = 0;
  // False after an error that every later call will meet again (an illegal address, say).
  virtual bool usable() { return true; }
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Seconds now() const = 0;  // from any fixed moment on
};

class SteadyClock : public Clock {
 public:
  Seconds now() const override;
};

// Buffer sets to rotate through, so that no set is still in the L2 when its turn comes again: their total is at least
// twice the L2. At least 1, at most `most`, and never more than half of the free memory holds.
int rotating_sets(Bytes one_set, Bytes l2, Bytes free_memory, int most = 64);

}  // namespace epsim::measure
