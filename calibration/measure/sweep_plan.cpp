#include "calibration/measure/sweep_plan.h"

#include <algorithm>
#include <cmath>

namespace epsim::measure {
namespace {

struct Queue {
  std::vector<PlannedPoint> points;  // in the order to measure
  std::size_t next = 0;
  double share = 1;
  Seconds planned{0};
};

Queue queue_of(const OpSpec& op, const SweepRequest& request, const GpuFacts& facts) {
  std::vector<PlannedPoint> grid = grid_of(op, request, facts);
  std::vector<std::vector<double>> at;
  for (PlannedPoint& point : grid) {
    point.predicted = predicted_time(op, point.values, facts);
    point.cost = predicted_cost(op, point.predicted, request.rule);
    at.push_back(point.values);
  }
  Queue out{{}, 0, op.share, Seconds(0)};
  for (const std::size_t i : coverage_order(at)) {
    out.points.push_back(std::move(grid[i]));
  }
  return out;
}

}  // namespace

Seconds predicted_time(const OpSpec& op, std::span<const double> values, const GpuFacts& facts) {
  const Work work = op.work(values);
  const double known_flops = facts.peak(op.dtype).count(), known_bytes = facts.memory_peak().count();
  const double flops = known_flops > 0 ? known_flops : 312e12, bytes = known_bytes > 0 ? known_bytes : 2.0e12;
  const double busy = std::max(work.flops.count() / (0.5 * flops), work.bytes.count() / (0.7 * bytes));
  return Seconds(std::max(busy, work.wire.count() / 20e9) + 5e-6 * work.launches);
}

Seconds predicted_cost(const OpSpec& op, Seconds one, const StopRule& rule) {
  const Seconds preparation(op.kind == OpKind::kCompute ? 0.04 : 0.01);
  const int ways = op.name == "grouped_gemm" ? 2 : 1;
  const Seconds warm = std::max(rule.warm_up, rule.warm_up_launches * one);
  // About twice the smallest number of repeats, as quiet machines need.
  const Seconds repeats = 2 * rule.min_repeats * batch_size(rule, one) * one;
  return preparation + ways * (warm + std::min(repeats, std::max(rule.budget, rule.min_repeats * one)));
}

std::vector<PlannedPoint> plan_sweep(const SweepRequest& request, const Device& device) {
  std::vector<Queue> queues;
  for (const OpSpec& op : all_ops()) {  // the table's order, so that the caller's does not matter
    if (std::find(request.ops.begin(), request.ops.end(), &op) != request.ops.end() && !device.waived(op)) {
      queues.push_back(queue_of(op, request, device.facts()));
    }
  }
  std::vector<PlannedPoint> out;
  for (;;) {
    Queue* turn = nullptr;
    for (Queue& q : queues) {
      if (q.next < q.points.size() && (turn == nullptr || q.planned / q.share < turn->planned / turn->share)) {
        turn = &q;
      }
    }
    if (turn == nullptr) {
      return out;
    }
    turn->planned += turn->points[turn->next].cost;
    out.push_back(std::move(turn->points[turn->next++]));
  }
}

}  // namespace epsim::measure
