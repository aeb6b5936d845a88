#include "calibration/measure/measure_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"

namespace epsim::measure {
namespace {

PointResult without_time(FailureKind kind, const std::string& reason) {
  PointResult out;
  out.outcome = kind == FailureKind::kUnsupported ? Outcome::kWaived : Outcome::kFailed;
  out.failure = kind;
  out.reason = reason;
  return out;
}

void check_outputs(Workload& workload, std::size_t kernel, KernelTime& out) {
  const CheckReport report = workload.check(kernel);
  if (!report.good()) {
    throw MeasureFailed(FailureKind::kWrongResult,
                        fmt::format("relative error {:.3g}, allowed {:.3g}{}{}", report.error, report.bound,
                                    report.detail.empty() ? "" : "; ", report.detail));
  }
  out.check_error = report.error;
}

// A time of zero would end every rule at once and no model can be fitted to it.
double sample(Workload& workload, std::size_t kernel, int launches) {
  const Seconds total = workload.time(kernel, launches);
  if (!(total.count() > 0) || !std::isfinite(total.count())) {
    throw MeasureFailed(FailureKind::kLaunch,
                        fmt::format("the timer gave {} s for {} executions", total.count(), launches));
  }
  return total.count() / launches;
}

// Returns the time of one warm execution.
Seconds warm_up(Workload& workload, std::size_t kernel, const StopRule& rule) {
  Seconds spent{0}, last{0};
  for (int i = 0; i < rule.warm_up_launches || (spent < rule.warm_up && i < 1000); ++i) {
    last = Seconds(sample(workload, kernel, 1));
    spent += last;
  }
  return last;
}

KernelTime measure_kernel(Workload& workload, std::size_t kernel, const Clock& clock, const StopRule& rule) {
  KernelTime out;
  out.kernel = workload.kernels()[kernel];
  check_outputs(workload, kernel, out);
  out.batch = batch_size(rule, warm_up(workload, kernel, rule));
  std::vector<double> samples;
  const Seconds start = clock.now();
  std::optional<Interval> interval;
  while (!interval) {
    samples.push_back(sample(workload, kernel, out.batch));
    interval = settled(rule, samples, clock.now() - start);
  }
  out.time_s = *interval;
  out.repeats = static_cast<int>(samples.size());
  return out;
}

PointResult measure_prepared(Workload& workload, const Clock& clock, const StopRule& rule) {
  PointResult out;
  std::optional<MeasureFailed> first;
  const std::vector<std::string> names = workload.kernels();
  EPSIM_CHECK(!names.empty(), "a prepared workload has a kernel");
  for (std::size_t k = 0; k < names.size(); ++k) {
    try {
      out.kernels.push_back(measure_kernel(workload, k, clock, rule));
      if (out.kernels.back().time_s.median < out.kernels[out.best].time_s.median) {
        out.best = out.kernels.size() - 1;
      }
    } catch (const MeasureFailed& failure) {
      out.lost.push_back(fmt::format("{}: {}: {}", names[k], name_of(failure.kind), failure.what()));
      first = first ? first : std::optional(failure);
    }
  }
  if (out.kernels.empty()) {
    return without_time(first->kind, fmt::format("{}", fmt::join(out.lost, "; ")));
  }
  return out;
}

}  // namespace

PointResult measure_point(Device& device, const Clock& clock, const PlannedPoint& point, const StopRule& rule) {
  if (const std::optional<std::string> reason = device.waived(*point.op)) {
    return without_time(FailureKind::kUnsupported, *reason);
  }
  try {
    const std::unique_ptr<Workload> workload = device.prepare(point);
    PointResult out = measure_prepared(*workload, clock, rule);
    const ClockState state = device.clocks();
    out.sm_mhz = state.sm_mhz;
    out.throttle = state.throttle;
    return out;
  } catch (const MeasureFailed& failure) {
    return without_time(failure.kind, failure.what());
  }
}

}  // namespace epsim::measure
