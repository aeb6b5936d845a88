#include "sim/study/diagnosis.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "sim/cluster/run_policy.h"
#include "sim/core/mapped.h"
#include "sim/study/job_runner.h"
#include "sim/study/load_point.h"
#include "sim/study/window_halves.h"

namespace epsim {
namespace {

enum Subject : std::size_t { kInOrder, kPlacement, kCopies, kPerfect, kSubjects };

constexpr std::size_t kFewestRequests = 2000, kMostRequests = 10'000;
constexpr double kTimesTheCache = 2;     // of the KV cache
constexpr double kNothingToKeep = 0.01;  // gain in balancedness below which there is nothing to keep

double mean_balancedness(const Placement& placement, const LoadWindow& window) {
  const std::vector<double> by_layer = balancedness_by_layer(placement, window);
  return std::accumulate(by_layer.begin(), by_layer.end(), 0.0) / static_cast<double>(by_layer.size());
}

void measure_skew(const Scenario& s, const Placement& in_order, const LoadWindow& window, Diagnosis& out) {
  const std::vector<double> by_layer = balancedness_by_layer(in_order, window);
  const auto layers = static_cast<double>(by_layer.size());
  const auto worst = std::min_element(by_layer.begin(), by_layer.end());
  out.worst_imbalance = 1 / *worst;
  out.worst_layer = s.model.moe_layer_numbers()[static_cast<std::size_t>(worst - by_layer.begin())];
  out.imbalance = out.hottest_expert = out.worst_hottest_expert = 0;
  for (int l = 0; l < window.layers(); ++l) {
    out.imbalance += 1 / by_layer[static_cast<std::size_t>(l)] / layers;
    const double hottest = 1 / balancedness(window.layer(l));
    out.hottest_expert += hottest / layers;
    if (hottest > out.worst_hottest_expert) {
      out.worst_hottest_expert = hottest;
      out.worst_expert_layer = s.model.moe_layer_numbers()[static_cast<std::size_t>(l)];
    }
  }
}

// A plan of one half of every window, scored on the other half of that one and of each later one.
void measure_life(Scenario& s, std::span<const LoadWindow> windows, const Placement& in_order, Diagnosis& out) {
  std::vector<WindowHalves> halves;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    RandomStream random(Seed{1}, "diagnosis-halves", i);
    halves.push_back(halves_of(windows[i], random));
    out.window_tokens += windows[i].total(0) / s.model.top_k / static_cast<double>(windows.size());
  }
  const std::size_t n = windows.size();
  double on_itself = 0;
  std::vector<double> aged(n, 0.0), fresh(n, 0.0);  // [age] gains on the windows that have an earlier one by so much
  for (std::size_t i = 0; i < windows.size(); ++i) {
    s.plan_window = halves[i].first;
    const PreparedRun planned = prepare_run(s, s.policies[kCopies]);
    const auto gain_on = [&](const LoadWindow& window) {
      return mean_balancedness(planned.last().placement, window) - mean_balancedness(in_order, window);
    };
    on_itself += gain_on(halves[i].first);
    for (std::size_t j = i; j < n; ++j) {
      aged[j - i] += gain_on(halves[j].second);
    }
    const double own = gain_on(halves[i].second);
    std::for_each(fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(i) + 1, [&](double& sum) { sum += own; });
  }
  if (on_itself < kNothingToKeep * static_cast<double>(n)) {
    return;
  }
  out.repeats = std::max(0.0, fresh[0] / on_itself);
  out.kept = std::vector<double>(n);
  std::transform(aged.begin(), aged.end(), fresh.begin(), out.kept.begin(),
                 [](double old, double now) { return now > 0 ? old / now : 0; });
}

std::size_t requests_to_fill(const Scenario& s, const PreparedInstance& run) {
  double tokens = 0;
  for (const Request& r : s.requests.requests) {
    tokens += static_cast<double>(r.input_tokens + r.output_tokens);
  }
  const double mean = tokens / static_cast<double>(s.requests.requests.size());
  const double room = static_cast<double>(run.serving.kv_blocks * run.serving.kv_block_tokens) *
                      run.pool.parallelism.dp_ranks() * run.pool.instances;
  return std::clamp(static_cast<std::size_t>(kTimesTheCache * room / mean), kFewestRequests, kMostRequests);
}

struct Saturated {
  double rate = 0;  // requests/s
  Seconds step{};   // on average
};

Saturated run_saturated(const Scenario& s, const PreparedRun& prepared, std::size_t requests,
                        const RunControl& control) {
  const RequestTrace trace = s.make_requests ? s.make_requests(requests) : s.requests;
  const RunResult run = whole_run(run_prepared(s, prepared, as_burst(first_of(trace, requests)), control));
  // From the first prompt to the last answer: what ends in the middle of a burst leaves its prompts out.
  const Seconds end = to_seconds(run.end);
  // Of one instance; where prefill and decode are apart, of one that decodes, as all that a diagnosis says of a pool.
  const InstanceRole role = run.instances.back().role;
  double steps = 0, instances = 0;
  for (const InstanceTotals& each : run.instances) {
    steps += each.role == role ? static_cast<double>(each.steps) : 0;
    instances += each.role == role ? 1 : 0;
  }
  return {static_cast<double>(run.completed) / end.count(), end / std::max(steps / instances, 1.0)};
}

LoadWindow sum_of(std::span<const LoadWindow> windows) {
  LoadWindow out(windows.front().layers(), windows.front().experts());
  for (const LoadWindow& window : windows) {
    for (int l = 0; l < out.layers(); ++l) {
      const std::span<const double> from = window.layer(l);
      const std::span<double> to = out.layer(l);
      std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
    }
  }
  return out;
}

}  // namespace

LoadWindow scored_window(std::span<const LoadWindow> windows, std::size_t planned) {
  return sum_of(planned < windows.size() ? windows.subspan(planned) : windows);
}

Diagnosis diagnose(std::vector<Scenario> by_seed, std::span<const LoadWindow> windows, std::size_t planned,
                   const RunControl& control) {
  Diagnosis out;
  out.windows = static_cast<int>(windows.size());
  out.scored_later = planned < windows.size();
  const LoadWindow plan_window = sum_of(windows.first(planned));
  const LoadWindow run_window = scored_window(windows, planned);
  for (Scenario& s : by_seed) {
    s.plan_window = plan_window;
    s.run_window = run_window;
  }
  Scenario& first = by_seed.front();
  const std::vector<PreparedRun> prepared =
      mapped(first.policies, [&](const PolicyChoice& policy) { return prepare_run(first, policy); });
  const PreparedInstance& in_order = prepared[kInOrder].last();
  measure_skew(first, in_order.placement, run_window, out);
  out.copies_per_layer = prepared[kCopies].last().plan.copies() / first.model.moe_layers();
  out.kv_lost_share = prepared[kCopies].last().memory.extras_loss;

  const std::size_t requests = requests_to_fill(first, in_order);
  std::vector<Saturated> runs(kSubjects * by_seed.size());
  run_jobs(all_jobs(runs.size()), {control.stop}, [&](std::size_t i, const Abandoned&) {
    runs[i] = run_saturated(by_seed[i / kSubjects], prepared[i % kSubjects], requests, control);
  });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<double>* const rates[] = {&out.in_order, &out.placement, &out.copies, &out.perfect};
    rates[i % kSubjects]->push_back(runs[i].rate);
  }
  out.step_s = runs[kPlacement].step.count();
  Scenario later = first;  // what a rebalance on the scored windows would change
  later.plan_window = run_window;
  const auto price = [&](Subject subject) {
    // With one window no plan follows another: the first one, after experts in order, stands in.
    const PreparedRun& before = prepared[out.scored_later ? subject : kInOrder];
    return price_rebalance(first, prepare_run(later, later.policies[subject]).last(), before.last());
  };
  out.move_placement = price(kPlacement);
  out.move_copies = price(kCopies);
  measure_life(later, windows, in_order.placement, out);
  return out;
}

}  // namespace epsim
