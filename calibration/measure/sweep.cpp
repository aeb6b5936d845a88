#include "calibration/measure/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibration/measure/measure_point.h"
#include "sim/core/error.h"

namespace epsim::measure {
namespace {

std::string short_time(Seconds time) {
  const double s = time.count();
  return s < 1e-3 ? fmt::format("{:.2f} us", s * 1e6)
         : s < 1  ? fmt::format("{:.3f} ms", s * 1e3)
                  : fmt::format("{:.2f} s", s);
}

std::string minutes(Seconds time) {
  const auto s = static_cast<std::int64_t>(time.count() + 0.5);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

// Writes what there is when the sweep ends in any way; an exception under way is more important than a full disk.
class Keeper {
 public:
  Keeper(const Results& results, const SweepOptions& options, Seconds now)
      : results_(results), options_(options), written_(now) {}
  ~Keeper() {
    if (dirty_) {
      try {
        results_.write(options_.output);
      } catch (const std::exception& e) {
        options_.say(fmt::format("the last points could not be kept: {}", e.what()));
      }
    }
  }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  void added(Seconds now) {
    dirty_ = true;
    if (now - written_ >= options_.checkpoint_every) {
      write();
      written_ = now;
    }
  }
  void write() {
    results_.write(options_.output);
    dirty_ = false;
  }

 private:
  const Results& results_;
  const SweepOptions& options_;
  Seconds written_;  // when
  bool dirty_ = false;
};

void count(SweepSummary& summary, const PointResult& result) {
  summary.measured += result.outcome == Outcome::kMeasured ? 1 : 0;
  summary.failed += result.outcome == Outcome::kFailed ? 1 : 0;
  summary.waived += result.outcome == Outcome::kWaived ? 1 : 0;
}

}  // namespace

RemainingTime::RemainingTime(std::span<const PlannedPoint* const> points) {
  for (const PlannedPoint* p : points) {
    ops_[std::string(p->op->name)].planned_left += p->cost;
  }
}

void RemainingTime::finished(const PlannedPoint& point, Seconds took) {
  PerOp& op = ops_[std::string(point.op->name)];
  op.planned_left -= point.cost;
  op.planned_done += point.cost;
  op.took += took;
}

Seconds RemainingTime::left() const {
  Seconds sum{0};
  for (const auto& [name, op] : ops_) {
    const double slower = op.planned_done.count() > 0 ? op.took / op.planned_done : 1;
    sum += std::max(op.planned_left, Seconds(0)) * slower;
  }
  return sum;
}

std::string describe(const PlannedPoint& point, const PointResult& result, const GpuFacts& facts) {
  if (result.outcome != Outcome::kMeasured) {
    return fmt::format("{}: {}: {}", point.key(), name_of(result.failure), result.reason);
  }
  const KernelTime& best = result.kernels[result.best];
  std::string text = fmt::format("{}: {} +-{:.1f} % ({})", point.key(), short_time(Seconds(best.time_s.median)),
                                 100 * best.time_s.relative_half_width, best.kernel);
  const Work work = point.op->work(point.values);
  const double time = best.time_s.median;
  if (work.flops.count() > 0 && point.op->kind == OpKind::kCompute) {
    const double peak = facts.peak(point.op->dtype).count();
    text += fmt::format(", {:.1f} TFLOP/s", work.flops.count() / time / 1e12);
    text += peak > 0 ? fmt::format(", {:.1f} % of peak", 100 * work.flops.count() / time / peak) : "";
  }
  const Bytes moved = work.wire.count() > 0 ? work.wire : work.bytes;
  text += moved.count() > 0 ? fmt::format(", {:.1f} GB/s", moved.count() / time / 1e9) : "";
  for (const std::string& lost : result.lost) {
    text += "; lost " + lost;
  }
  return text;
}

SweepSummary run_sweep(Device& device, const Clock& clock, std::span<const PlannedPoint> plan,
                       const SweepOptions& options, Results& results) {
  SweepSummary summary;
  summary.planned = plan.size();
  std::vector<const PlannedPoint*> open;
  for (const PlannedPoint& p : plan) {
    results.has(p) ? static_cast<void>(++summary.already) : open.push_back(&p);
  }
  std::stable_partition(open.begin(), open.end(), [&](const PlannedPoint* p) { return !results.failed_before(*p); });
  RemainingTime remaining(open);
  const Seconds start = clock.now();
  Keeper keeper(results, options, start);
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Seconds spent = clock.now() - start;
    if (options.interrupted() || spent >= options.budget) {
      summary.end = options.interrupted() ? SweepEnd::kInterrupted : SweepEnd::kBudget;
      summary.left = open.size() - i;
      break;
    }
    const PlannedPoint& point = *open[i];
    const PointResult result = measure_point(device, clock, point, options.rule);
    const Seconds took = clock.now() - start - spent;
    remaining.finished(point, took);
    results.add(point, result);
    count(summary, result);
    keeper.added(clock.now());
    options.say(fmt::format("[{}/{}] {} | {} left", i + 1, open.size(), describe(point, result, device.facts()),
                            minutes(std::min(remaining.left(), std::max(options.budget - spent - took, Seconds(0))))));
    if (result.outcome == Outcome::kFailed && !device.usable()) {
      throw RunFailed(
          fmt::format("the device cannot be used any more after {}; what was measured is kept, --resume goes "
                      "on with the other points",
                      point.key()));
    }
  }
  if (summary.left > 0) {
    results.note("not measured", fmt::format("{} planned points ({})", summary.left,
                                             summary.end == SweepEnd::kBudget ? "time budget" : "interrupted"));
  }
  keeper.write();
  return summary;
}

}  // namespace epsim::measure
