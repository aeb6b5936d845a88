#include "traces/routing_model/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "sim/core/refuse.h"

namespace epsim {

namespace {

using LayerFigure = std::function<std::optional<double>(std::size_t layer, const TraceProfile&)>;

class Rows {
 public:
  Rows(const TraceProfile& a, const TraceProfile& b) : a_(a), b_(b) {}

  void by_layer(const std::string& name, const LayerFigure& figure) {
    ComparisonRow row{name, 0, 0, 0, true};
    double layers = 0;
    for (std::size_t l = 0; l < a_.layers.size(); ++l) {
      const auto x = figure(l, a_), y = figure(l, b_);
      if (x && y && *x > 0) {
        row.a += *x;
        row.b += *y;
        row.deviation += std::abs(*y / *x - 1);
        layers += 1;
      }
    }
    if (layers > 0) {
      rows_.push_back({name, row.a / layers, row.b / layers, row.deviation / layers, true, true});
    }
  }
  void ratio(const std::string& name, double x, double y) {
    if (x > 0) {
      rows_.push_back({name, x, y, std::abs(y / x - 1), true});
    }
  }
  void difference(const std::string& name, std::optional<double> x, std::optional<double> y) {
    if (x && y) {
      rows_.push_back({name, *x, *y, std::abs(*y - *x), false});
    }
  }
  std::vector<ComparisonRow> take() { return std::move(rows_); }

 private:
  const TraceProfile& a_;
  const TraceProfile& b_;
  std::vector<ComparisonRow> rows_;
};

const BatchProfile* batch_of(const TraceProfile& p, int tokens) {
  for (const BatchProfile& batch : p.batches) {
    if (batch.tokens == tokens) {
      return &batch;
    }
  }
  return nullptr;
}

// Experts in common per choice slot.
std::optional<double> per_slot(const std::optional<double>& overlap, const TraceProfile& p) {
  return overlap ? std::optional(*overlap / p.info.top_k) : std::nullopt;
}

void add_batches(const TraceProfile& a, const TraceProfile& b, Rows& rows) {
  for (const int tokens : kProfileBatches) {
    const BatchProfile* x = batch_of(a, tokens);
    const BatchProfile* y = batch_of(b, tokens);
    if (x != nullptr && y != nullptr) {
      rows.by_layer(fmt::format("max / mean of {} tokens in a row", tokens), [&](std::size_t l, const TraceProfile& p) {
        return std::optional(batch_of(p, tokens)->by_layer[l]);
      });
      rows.ratio(fmt::format("  p50 over batches and layers"), x->p50, y->p50);
      rows.ratio(fmt::format("  p95 over batches and layers"), x->p95, y->p95);
    }
  }
}

std::string title(const TraceProfile& p) {
  return p.info.model.empty() ? p.info.source : fmt::format("{} ({})", p.info.model, p.info.source);
}

}  // namespace

ProfileComparison compare(const TraceProfile& a, const TraceProfile& b) {
  refuse_if(a.layers.size() != b.layers.size() || a.info.experts != b.info.experts, "",
            fmt::format(
                "one trace has {} layers of {} experts, the other {} of {}; only traces of one shape can be compared.",
                a.layers.size(), a.info.experts, b.layers.size(), b.info.experts));
  Rows rows(a, b);
  rows.by_layer("max / mean expert load",
                [](std::size_t l, const TraceProfile& p) { return std::optional(p.layers[l].max_over_mean); });
  rows.by_layer("share of the hottest two",
                [](std::size_t l, const TraceProfile& p) { return std::optional(p.layers[l].top2_share); });
  for (std::size_t i = 0; i < kBalancednessGpus.size(); ++i) {
    rows.by_layer(fmt::format("balancedness on {} GPUs", kBalancednessGpus[i]),
                  [i](std::size_t l, const TraceProfile& p) { return p.layers[l].balancedness[i]; });
  }
  add_batches(a, b, rows);
  if (a.rows > 1 && b.rows > 1) {  // a lone row is a total, not a step
    rows.ratio("max / mean of single load rows", *a.row_max_over_mean, *b.row_max_over_mean);
  }
  rows.difference("autocorrelation of successive rows", a.autocorrelation, b.autocorrelation);
  rows.difference("experts shared with the token before", per_slot(a.overlap_1, a), per_slot(b.overlap_1, b));
  rows.difference("experts shared with the 8th before", per_slot(a.overlap_8, a), per_slot(b.overlap_8, b));
  rows.difference("affinity within a layer", a.affinity, b.affinity);
  rows.difference("affinity to the next layer", a.next_layer, b.next_layer);
  ProfileComparison out{title(a), title(b), rows.take(), 1};
  const double sum = std::accumulate(out.rows.begin(), out.rows.end(), 0.0, [](double s, const ComparisonRow& r) {
    return s + std::max(0.0, 1 - r.deviation);
  });
  out.goodness = out.rows.empty() ? 0 : sum / static_cast<double>(out.rows.size());
  return out;
}

std::string to_text(const ProfileComparison& c) {
  std::string out = fmt::format("A: {}\nB: {}\n\n{:<40}{:>10}{:>10}{:>12}\n", c.a, c.b, "", "A", "B", "deviation");
  for (const ComparisonRow& r : c.rows) {
    const std::string deviation =
        r.relative ? fmt::format("{:.1f} %", 100 * r.deviation) : fmt::format("{:.3f}", r.deviation);
    out += fmt::format("{:<40}{:>10.4g}{:>10.4g}{:>12}{}\n", r.name, r.a, r.b, deviation, r.by_layer ? " *" : "");
  }
  return out + fmt::format(
                   "\n* mean over layers of |B / A - 1|, not that of the means beside it; other lines: |B / A - 1| "
                   "in %, else |B - A|\n\ngoodness {:.3f} (1 = alike in every line)\n",
                   c.goodness);
}

std::string layers_to_text(const TraceProfile& a, const TraceProfile& b) {
  std::string out = fmt::format("{:>6}{:>12}{:>12}{:>12}\n", "layer", "A max/mean", "B max/mean", "deviation");
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    const double x = a.layers[l].max_over_mean, y = b.layers[l].max_over_mean;
    out +=
        fmt::format("{:>6}{:>12.3f}{:>12.3f}{:>10.1f} %\n", a.info.layer_numbers[l], x, y, 100 * std::abs(y / x - 1));
  }
  return out;
}

}  // namespace epsim
