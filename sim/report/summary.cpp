#include "sim/report/summary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/report/metric_rows.h"

namespace epsim {
namespace {

void add_kinds(const std::string& pool, const StepsByKind& by_kind, Seconds total, std::vector<StepKindFigures>& out) {
  for (std::size_t k = 0; k < by_kind.size(); ++k) {
    const auto& [steps, time] = by_kind[k];
    StepKindFigures& f = out.emplace_back();
    f.pool = pool;
    f.kind = static_cast<StepKind>(k);
    f.steps = steps;
    f.mean_ms = ratio(time.total.count() * 1e3, static_cast<double>(steps));
    f.time_s = time.total.count();
    f.share = ratio(time.total.count(), total.count());
    std::transform(time.by_part.begin(), time.by_part.end(), f.part_s.begin(), [](Seconds s) { return s.count(); });
    f.straggler_s = time.straggler.count();
  }
}

std::vector<InstanceFigures> instance_figures(const RunResult& run) {
  const double duration = whole_duration_of(run).count();
  std::vector<InstanceFigures> out;
  for (const InstanceTotals& i : run.instances) {
    const double busy = i.time.total.count();
    out.push_back(
        {std::string(kInstanceRoleNames[static_cast<std::size_t>(i.role)]), i.steps, busy, ratio(busy, duration)});
  }
  return out;
}

}  // namespace

std::vector<StepKindFigures> step_kinds(const RunResult& run) {
  std::vector<StepKindFigures> out;
  add_kinds("all", run.by_kind, run.time.total, out);
  if (run.instances.empty() || run.instances.front().role == run.instances.back().role) {
    return out;
  }
  for (const InstanceRole role : {InstanceRole::kPrefill, InstanceRole::kDecode}) {
    StepsByKind sum{};
    Seconds total{};
    for (const InstanceTotals& i : run.instances) {
      for (std::size_t k = 0; i.role == role && k < sum.size(); ++k) {
        sum[k].steps += i.by_kind[k].steps;
        add_cost(sum[k].time, i.by_kind[k].time);
        total += i.by_kind[k].time.total;
      }
    }
    add_kinds(std::string(kInstanceRoleNames[static_cast<std::size_t>(role)]), sum, total, out);
  }
  return out;
}

std::vector<std::span<const double>> by_instance(const RunResult& run, std::span<const double> of_gpus) {
  std::vector<std::span<const double>> out;
  std::size_t first = 0;
  for (const InstanceTotals& instance : run.instances) {
    const auto gpus = static_cast<std::size_t>(instance.gpus);
    if (gpus > 0 && first + gpus <= of_gpus.size()) {
      out.push_back(of_gpus.subspan(first, gpus));
    }
    first += gpus;
  }
  return out;
}

double imbalance(const RunResult& run, std::span<const double> of_gpus) {
  double out = of_gpus.empty() ? kUndefined : 1.0;
  for (const std::span<const double> own : by_instance(run, of_gpus)) {
    const double mean = std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
    out = mean > 0 ? std::max(out, *std::max_element(own.begin(), own.end()) / mean) : out;
  }
  return out;
}

double StepKindFigures::seconds(std::string_view name) const {
  const auto part = std::find(kLayerPartNames.begin(), kLayerPartNames.end(), name);
  return part == kLayerPartNames.end() ? straggler_s : part_s[static_cast<std::size_t>(part - kLayerPartNames.begin())];
}

bool RunSummary::defined(const Metric& m) const {
  return m.is_text() ? !texts[m.index].empty() : std::isfinite(numbers[m.index]);
}

RunSummary summarize(const RunResult& run) {
  RunSummary out;
  out.label = run.label;
  for (const Metric& m : metrics()) {
    if (m.is_text()) {
      out.texts[m.index] = m.words(run);
    } else {
      out.numbers[m.index] = m.number(run);
    }
  }
  double in_some_state = 0;
  for (const char* state : {"completed", "failed", "running", "waiting"}) {
    in_some_state += out.number(std::string(state) + "_requests");
  }
  EPSIM_CHECK(in_some_state == out.number("offered_requests"), "every request has one state");
  const double lost = out.number("kv_lost_to_copies_share");
  EPSIM_CHECK(lost >= 0 && lost < 1, "a run has some KV pool, so copies took less than all of it");
  out.step_kinds = step_kinds(run);
  out.instances = instance_figures(run);
  out.memory = run.memory.items;
  out.prefill_memory = run.prefill_memory;
  out.warnings = run.warnings;
  out.carried_over = run.carried_over;
  out.prefix_cache = run.kv.prefix_cache;
  return out;
}

std::vector<const Metric*> metrics_in(const RunSummary& run, const MetricSection& section) {
  std::vector<const Metric*> out = metrics_of(section.name);
  if (section.may_be_null && std::none_of(out.begin(), out.end(), [&](const Metric* m) { return run.defined(*m); })) {
    out.clear();
  }
  return out;
}

std::string shown(const RunSummary& run, std::string_view name) { return shown(metric(name).form, run.number(name)); }

}  // namespace epsim
