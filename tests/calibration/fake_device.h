// A device that only exists as arithmetic, and the clock that its work moves: every test of the measuring loop runs
// in simulated time.
#pragma once

#include <functional>
#include <map>

#include "calibration/measure/device.h"
#include "calibration/measure/sweep_plan.h"
#include "sim/core/rng.h"

namespace epsim::test {

struct FakeClock : measure::Clock {
  Seconds now() const override { return time; }
  mutable Seconds time{0};
};

// What a kernel of the fake device does; the defaults are a quiet kernel with correct results.
struct FakeKernel {
  std::string name = "fake";
  double slower = 1;  // than the model's time
  double noise = 0;   // standard deviation of a sample, relative
  double error = 0;   // of the outputs, of which 0.01 is allowed
  std::function<void()> on_time = [] {};
};

struct FakeDevice : measure::Device {
  explicit FakeDevice(FakeClock& moved) : clock(moved) {
    machine.name = "NVIDIA Fake-1000";
    machine.compute_major = 8;
    machine.multiprocessors = 100;
    machine.clock_mhz = 1000;  // 204.8 TF/s
    machine.memory_clock_mhz = 1000;
    machine.memory_bus_bits = 4000;  // 1 TB/s
    machine.memory = Bytes(40e9);
    machine.l2 = Bytes(40e6);
  }

  // Time of one execution: the busier of arithmetic and memory at full peak, and 2 us a launch.
  Seconds exact(const measure::PlannedPoint& p) const {
    const measure::Work work = p.op->work(p.values);
    return std::max(work.flops / FlopsPerSecond(204.8e12), work.bytes / BytesPerSecond(1e12)) +
           Seconds(work.wire.count() / 10e9) + 2e-6 * Seconds(work.launches);
  }

  const measure::GpuFacts& facts() const override { return machine; }
  std::optional<std::string> waived(const measure::OpSpec& op) const override {
    const auto found = waive.find(std::string(op.name));
    return found == waive.end() ? std::nullopt : std::optional(found->second);
  }
  measure::ClockState clocks() override { return {1000, throttle}; }
  std::unique_ptr<measure::Workload> prepare(const measure::PlannedPoint& point) override;

  FakeClock& clock;
  measure::GpuFacts machine;
  std::vector<FakeKernel> ways = {{}};
  std::map<std::string, std::string> waive;
  std::function<void(const measure::PlannedPoint&)> on_prepare = [](const auto&) {};
  Seconds preparation{0.01};
  std::uint64_t throttle = 0;
  int prepared = 0;
  bool broken = false;
  bool usable() override { return !broken; }
};

struct FakeWorkload : measure::Workload {
  FakeWorkload(FakeDevice& of, const measure::PlannedPoint& point)
      : device(of), one(of.exact(point)), noise(Seed{7}, "fake", static_cast<std::uint64_t>(of.prepared)) {}
  std::vector<std::string> kernels() const override {
    std::vector<std::string> names;
    for (const FakeKernel& way : device.ways) {
      names.push_back(way.name);
    }
    return names;
  }
  Seconds time(std::size_t kernel, int launches) override {
    const FakeKernel& way = device.ways[kernel];
    way.on_time();
    const Seconds took = launches * one * way.slower * std::max(0.1, 1 + way.noise * noise.normal());
    device.clock.time += took;
    return took;
  }
  measure::CheckReport check(std::size_t kernel) override {
    device.clock.time += one;
    return {device.ways[kernel].error, 0.01, "output 3 of 8"};
  }
  FakeDevice& device;
  Seconds one;
  RandomStream noise;
};

inline std::unique_ptr<measure::Workload> FakeDevice::prepare(const measure::PlannedPoint& point) {
  ++prepared;
  clock.time += preparation;
  on_prepare(point);
  return std::make_unique<FakeWorkload>(*this, point);
}

inline measure::PlannedPoint gemm_point(double m, double n, double k) {
  return {&measure::find_op("dense_gemm"), {m, n, k}, {}, {}, {}};
}

}  // namespace epsim::test
