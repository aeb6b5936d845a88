#include "sim/report/csv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/report/bottleneck.h"
#include "sim/report/csv_table.h"
#include "sim/report/metric_rows.h"
#include "sim/report/ranking.h"

namespace epsim {
namespace {

// All GPUs have a KV pool as large as the fullest one's.
constexpr std::string_view kLeftOverItem = "left over";

constexpr std::array<std::string_view, 4> kStateNames = {"waiting", "running", "completed", "failed"};

// How far a request came. A token comes after its request was admitted, never at the same instant, because a step takes
// time; so a first_token that is not later than `admitted` was never set.
void add_progress(CsvTable& csv, const RequestRecord& r) {
  const bool completed = r.state == RequestState::kCompleted;
  const bool admitted = completed || r.state == RequestState::kRunning;
  const bool first_token = completed || (admitted && r.first_token > r.admitted);
  csv.raw(admitted ? exact_seconds(r.admitted) : "");
  csv.raw(first_token ? exact_seconds(r.first_token) : "");
  csv.raw(completed ? exact_seconds(r.finished) : "");
  csv.raw(admitted ? exact_ms(r.admitted - r.arrival) : "");
  csv.raw(first_token ? exact_ms(r.first_token - r.arrival) : "");
  const bool has_gaps = completed && r.output_tokens > 1;
  csv.number(has_gaps ? to_ms(to_seconds(r.finished - r.first_token)) / (r.output_tokens - 1) : kUndefined);
  csv.raw(completed ? exact_ms(r.finished - r.arrival) : "");
}

// Detail per layer and GPU, or nothing where the run kept none.
struct LayerGpuView {
  std::span<const double> values;
  std::size_t gpus;

  LayerGpuView(const std::vector<double>& v, const StepTotals& totals)
      : values(v), gpus(static_cast<std::size_t>(totals.gpus)) {
    EPSIM_CHECK(v.empty() || v.size() == totals.layers.size() * gpus, "detail has one value per layer and GPU");
  }
  std::span<const double> layer(std::size_t l) const {
    return values.empty() ? values : values.subspan(l * gpus, gpus);
  }
  double of_gpu(std::size_t gpu) const {
    double sum = 0;
    for (std::size_t i = gpu; i < values.size(); i += gpus) {
      sum += values[i];
    }
    return values.empty() ? kUndefined : sum;
  }
  std::vector<double> by_gpu() const {
    std::vector<double> out(gpus);
    for (std::size_t g = 0; g < gpus; ++g) {
      out[g] = of_gpu(g);
    }
    return out;
  }
};

void add_layer(CsvTable& csv, const LayerTotals& layer, double steps) {
  csv.integer(layer.layer_number);
  Seconds total{};
  for (const Seconds part : layer.by_part) {
    csv.number(ratio(to_us(part), steps));
    total += part;
  }
  csv.number(ratio(to_us(total), steps)).number(ratio(to_us(layer.straggler), steps));
  csv.number(ratio(layer.balancedness_sum, steps));
  csv.number(steps > 0 ? layer.balancedness_min : kUndefined);
}

void add_balance(CsvTable& csv, const RunResult& run, std::span<const double> loads, double steps) {
  double total = 0;
  for (const double load : loads) {
    total += load;
  }
  csv.number(imbalance(run, loads));
  csv.integer_if(total > 0, std::max_element(loads.begin(), loads.end()) - loads.begin());
  csv.number(loads.empty() ? kUndefined : ratio(total, steps));
}

// Mean / maximum; empty where nothing moves.
void add_rows_balance(CsvTable& csv, const RunResult& run, std::span<const double> rows) {
  const bool moves = std::any_of(rows.begin(), rows.end(), [](double r) { return r > 0; });
  csv.number(moves ? 1.0 / imbalance(run, rows) : kUndefined);
}

}  // namespace

void write_step_kinds_csv(std::ostream& out, const RunResult& run) {
  CsvTable csv(out, part_columns({"pool", "step_kind", "steps", "step_mean_ms", "step_time_s", "step_time_share"}, "s",
                                 {"straggler_s"}));
  for (const StepKindFigures& f : step_kinds(run)) {
    csv.text(f.pool).text(kStepKindNames[static_cast<std::size_t>(f.kind)]).integer(f.steps).number(f.mean_ms);
    csv.number(f.time_s).number(f.share);
    for (const double seconds : f.part_s) {
      csv.number(seconds);
    }
    csv.number(f.straggler_s).end_row();
  }
}

void write_series_csv(std::ostream& out, const RunResult& run) {
  CsvTable csv(out, {"start_s", "length_s", "running_requests", "queued_requests", "kv_use_share",
                     "output_tokens_per_s", "ttft_mean_ms"});
  for (const SeriesPoint& p : run.series.points) {
    csv.number(p.start.count()).number(p.length.count()).number(p.running).number(p.queued).number(p.kv_use);
    csv.number(ratio(static_cast<double>(p.output_tokens), p.length.count()));
    csv.number(ratio(p.ttft_sum.count() * 1e3, static_cast<double>(p.first_tokens))).end_row();
  }
}

void write_requests_csv(std::ostream& out, const RunResult& run) {
  CsvTable csv(
      out, {"request", "dp_rank", "state", "input_tokens", "output_tokens", "arrival_s", "admitted_s", "first_token_s",
            "finished_s", "queue_ms", "ttft_ms", "tpot_ms", "e2e_ms", "cached_tokens", "retractions", "retries"});
  for (auto i = static_cast<std::size_t>(run.warmup); i < run.requests.size(); ++i) {
    const RequestRecord& r = run.requests[i];
    csv.integer(static_cast<std::int64_t>(i));
    csv.integer_if(r.routed(), r.rank);
    csv.text(kStateNames[static_cast<std::size_t>(r.state)]);
    csv.integer(r.input_tokens).integer(r.output_tokens).raw(exact_seconds(r.arrival));
    add_progress(csv, r);
    const RequestExtras extras = run.requests.extras(i);
    csv.integer(extras.cached_tokens).integer(extras.retractions).integer(extras.retries);
    csv.end_row();
  }
}

void write_layers_csv(std::ostream& out, const RunResult& run) {
  const StepTotals& totals = run.detail;
  const LayerGpuView load(totals.gpu_load, totals);
  const auto& planned = run.planned_balancedness;
  EPSIM_CHECK(planned.empty() || planned.size() == totals.layers.size(), "a planned value for each layer, or none");
  EPSIM_CHECK(run.extra_copies.empty() || run.extra_copies.size() == totals.layers.size(), "likewise for copies");
  CsvTable csv(out, part_columns({"layer"}, "us",
                                 {"total_us", "straggler_us", "balancedness_mean", "balancedness_min",
                                  "imbalance_of_totals", "busiest_gpu", "assignments_per_step", "gpu_sent_balance",
                                  "gpu_received_balance", "nic_sent_balance", "nic_received_balance",
                                  "planned_balancedness", "extra_copies", "dispatch_bottleneck",
                                  "dispatch_bottleneck_share", "combine_bottleneck", "combine_bottleneck_share"}));
  for (std::size_t l = 0; l < totals.layers.size(); ++l) {
    const auto steps = static_cast<double>(totals.steps);
    add_layer(csv, totals.layers[l], steps);
    add_balance(csv, run, load.layer(l), steps);
    const GpuRows& rows = totals.gpu_rows;
    for (const std::vector<double>* of :
         {&rows.sent_inside, &rows.received_inside, &rows.sent_outside, &rows.received_outside}) {
      add_rows_balance(csv, run, LayerGpuView(*of, totals).layer(l));
    }
    csv.number(planned.empty() ? kUndefined : planned[l]);
    csv.number(run.extra_copies.empty() ? kUndefined : static_cast<double>(run.extra_copies[l]));
    for (const Direction direction : {Direction::kDispatch, Direction::kCombine}) {
      const BottleneckFigures bottleneck = layer_bottleneck(totals, l, direction);
      csv.text(bottleneck.link).number(bottleneck.share);
    }
    csv.end_row();
  }
}

void write_links_csv(std::ostream& out, const RunResult& run) {
  const double duration = whole_duration_of(run).count();
  const std::string busiest = busiest_link(run).name;
  CsvTable csv(out, {"link", "rate_GBps", "bytes_GB", "utilisation_of_run_share", "utilisation_of_steps_share",
                     "dispatch_bound_s", "combine_bound_s", "busiest"});
  for (std::size_t i = 0; i < run.detail.links.size(); ++i) {
    const LinkTotals& link = run.detail.links[i];
    const double bytes = link.bytes.count(), rate = link.rate.count();
    csv.text(link.name).number(std::isinf(rate) ? kUndefined : rate / 1e9).number(bytes / 1e9);
    csv.number(ratio(bytes, rate * duration));
    csv.number(link.instance == LinkTotals::kBesideSteps
                   ? kUndefined
                   : ratio(bytes, rate * run.instances.at(static_cast<std::size_t>(link.instance)).time.total.count()));
    csv.number(bound_by(run.detail, i, Direction::kDispatch)).number(bound_by(run.detail, i, Direction::kCombine));
    csv.integer(link.name == busiest ? 1 : 0);
    csv.end_row();
  }
}

void write_gpus_csv(std::ostream& out, const RunResult& run) {
  const LayerGpuView load(run.detail.gpu_load, run.detail), busy(run.detail.gpu_busy_s, run.detail);
  const std::vector<double> loads = load.by_gpu();
  CsvTable csv(out, {"gpu", "instance", "assignments", "load_over_mean", "expert_busy_s", "expert_busy_share"});
  std::size_t g = 0;
  std::int64_t number = 0;
  for (const std::span<const double> own : by_instance(run, loads)) {
    const double mean = ratio(std::accumulate(own.begin(), own.end(), 0.0), static_cast<double>(own.size()));
    const Seconds steps = run.instances[static_cast<std::size_t>(number)].time.total;
    for (const double assignments : own) {
      const double seconds = busy.of_gpu(g);
      csv.integer(static_cast<std::int64_t>(g++)).integer(number).number(assignments).number(ratio(assignments, mean));
      csv.number(seconds).number(ratio(seconds, steps.count()));
      csv.end_row();
    }
    ++number;
  }
}

void write_layer_gpu_csv(std::ostream& out, const RunResult& run) {
  const LayerGpuView load(run.detail.gpu_load, run.detail), busy(run.detail.gpu_busy_s, run.detail);
  const GpuRows& rows = run.detail.gpu_rows;
  CsvTable csv(out, {"layer", "gpu", "assignments", "expert_busy_s", "rows_sent_inside", "rows_received_inside",
                     "rows_sent_outside", "rows_received_outside"});
  for (std::size_t l = 0; l < run.detail.layers.size(); ++l) {
    const std::span<const double> loads = load.layer(l), seconds = busy.layer(l);
    for (std::size_t g = 0; g < load.gpus; ++g) {
      csv.integer(run.detail.layers[l].layer_number).integer(static_cast<std::int64_t>(g));
      csv.number(loads.empty() ? kUndefined : loads[g]).number(seconds.empty() ? kUndefined : seconds[g]);
      for (const std::vector<double>* of :
           {&rows.sent_inside, &rows.received_inside, &rows.sent_outside, &rows.received_outside}) {
        const std::span<const double> layer = LayerGpuView(*of, run.detail).layer(l);
        csv.number(layer.empty() ? kUndefined : layer[g]);
      }
      csv.end_row();
    }
  }
}

void write_layer_steps_csv(std::ostream& out, const RunResult& run) {
  const LayerSeries& series = run.detail.balancedness;
  CsvTable csv(out, {"layer", "first_step", "steps", "balancedness_mean"});
  for (int l = 0; l < series.layers(); ++l) {
    for (int c = 0; c < series.columns(); ++c) {
      csv.integer(run.detail.layers[static_cast<std::size_t>(l)].layer_number).integer(series.first_step(c));
      csv.integer(series.steps(c)).number(series.mean(c, l));
      csv.end_row();
    }
  }
}

void write_memory_csv(std::ostream& out, const RunResult& run) {
  const MemoryReport& memory = run.memory;
  CsvTable csv(out, {"gpu", "memory_item", "memory_gib"});
  for (std::size_t g = 0; g < memory.over_mean.size(); ++g) {
    const auto row = [&](std::string_view item, Bytes size) {
      csv.integer(static_cast<std::int64_t>(g)).text(item).number(to_gib(size));
      csv.end_row();
    };
    const Bytes over = memory.over_mean[g];
    for (const MemoryItem& item : memory.items) {
      if (item.name == kRoutedExpertsItem) {
        row(item.name, item.size + std::min(over, Bytes(0)));
      } else {
        row(item.name,
            item.name == kExtraCopiesItem || item.name == kUnevenExpertsItem ? std::max(over, Bytes(0)) : item.size);
      }
    }
    row(kLeftOverItem, memory.copies - over);
  }
}

void write_rebalances_csv(std::ostream& out, const RunResult& run) {
  CsvTable csv(out, {"instance", "rebalanced_after_steps", "outcome", "at_s", "in_effect_s", "balancedness_in_place",
                     "balancedness_of_new_plan", "moved_copies", "moved_gib", "transfer_s", "waited_for_plan_s",
                     "waited_for_weights_s", "slowed_s", "lost_s", "gained_s", "paid"});
  for (const RebalanceEvent& e : run.rebalance.events) {
    const bool taken = e.outcome == RebalanceOutcome::kTaken;
    csv.integer(e.instance).integer(e.step).text(kRebalanceOutcomeNames[static_cast<std::size_t>(e.outcome)]);
    csv.raw(exact_seconds(e.at)).raw(e.in_effect > Ticks{} ? exact_seconds(e.in_effect) : "");
    csv.number(e.balancedness).number(e.planned).integer(e.moved_copies).number(to_gib(e.moved));
    for (const Ticks time : {e.transfer, e.planning, e.moving, e.slowed, e.lost()}) {
      csv.raw(exact_seconds(time));
    }
    csv.number(taken ? to_seconds(e.gained).count() : kUndefined).raw(taken ? (e.paid() ? "1" : "0") : "");
    csv.end_row();
  }
}

void write_comparison_csv(std::ostream& out, const Comparison& runs) {
  std::vector<std::string_view> names{"rank", "policy", "seed"};
  for (const Metric& m : metrics()) {
    if (m.key.csv) {
      names.push_back(m.name);
    }
  }
  for (const Metric* m : changing_metrics()) {
    names.push_back(m->key.change);
  }
  CsvTable csv(out, names);
  int rank = 0;
  for (const std::size_t i : rank_policies(runs)) {
    ++rank;
    for (std::size_t seed = 0; seed < runs.seeds.size(); ++seed) {
      const RunSummary& r = runs.by_policy[i][seed];
      csv.integer(rank).text(r.label).integer(static_cast<std::int64_t>(runs.seeds[seed]));
      for (const Metric& m : metrics()) {
        if (m.key.csv) {
          csv.number(r.numbers[m.index]);
        }
      }
      for (const Metric* m : changing_metrics()) {
        csv.number(change(*m, runs.by_policy[0][seed], r));
      }
      csv.end_row();
    }
  }
}

void write_intervals_csv(std::ostream& out, const Comparison& runs) {
  CsvTable csv(out, {"policy", "figure", "mean", "interval95_low", "interval95_high", "difference_mean",
                     "difference_interval95_low", "difference_interval95_high"});
  for (const std::size_t i : rank_policies(runs)) {
    for (const Metric* m : compared_metrics()) {
      csv.text(runs.first_seed(i).label).text(m->name);
      for (const Estimate& e : {over_seeds(runs, i, *m), difference(runs, i, *m)}) {
        csv.number(e.mean).number(e.low()).number(e.high());
      }
      csv.end_row();
    }
  }
}

}  // namespace epsim
