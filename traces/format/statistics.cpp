#include "traces/format/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"

namespace epsim {

namespace {

double sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Of values sorted upwards; mean absolute difference over twice the mean.
double gini_of(std::span<const double> sorted) {
  const double n = static_cast<double>(sorted.size());
  double weighted = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    weighted += (2.0 * static_cast<double>(i) - n + 1) * sorted[i];
  }
  return weighted / (n * sum(sorted));
}

double entropy_of(std::span<const double> loads) {
  const double total = sum(loads);
  double entropy = 0;
  for (const double x : loads) {
    entropy -= x > 0 ? x / total * std::log(x / total) : 0.0;
  }
  return entropy;
}

}  // namespace

double contiguous_balancedness(std::span<const double> loads, int gpus) {
  const std::size_t each = loads.size() / static_cast<std::size_t>(gpus);
  EPSIM_CHECK(each * static_cast<std::size_t>(gpus) == loads.size(), "experts divide over the GPUs");
  std::vector<double> by_gpu(gpus, 0.0);
  for (std::size_t e = 0; e < loads.size(); ++e) {
    by_gpu[e / each] += loads[e];
  }
  return balancedness(by_gpu);
}

LayerSkew layer_skew(std::span<const double> loads) {
  std::vector<double> sorted(loads.begin(), loads.end());
  if (!(sum(sorted) > 0)) {
    std::fill(sorted.begin(), sorted.end(), 1.0);
  }
  std::sort(sorted.begin(), sorted.end());
  const double total = sum(sorted);
  const std::size_t n = sorted.size();
  const auto top = [&](std::size_t count) { return sum(std::span(sorted).last(std::min(count, n))) / total; };
  LayerSkew out;
  out.top1_share = top(1);
  out.top2_share = top(2);
  out.top_tenth_share = top(std::max<std::size_t>(1, n / 10));
  out.max_over_mean = out.top1_share * static_cast<double>(n);
  out.gini = gini_of(sorted);
  out.effective_experts = std::exp(entropy_of(sorted));
  for (std::size_t i = 0; i < kBalancednessGpus.size(); ++i) {
    if (n % static_cast<std::size_t>(kBalancednessGpus[i]) == 0) {
      out.balancedness[i] = contiguous_balancedness(loads, kBalancednessGpus[i]);
    }
  }
  return out;
}

double linear_quantile(std::span<const double> sorted, double share) {
  EPSIM_CHECK(!sorted.empty(), "a quantile needs values");
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

SkewSummary skew_summary(const LoadWindow& window) {
  EPSIM_CHECK(window.layers() > 0, "a window has layers");
  SkewSummary out;
  std::vector<double> skews;
  LayerSkew& a = out.average;
  a.max_over_mean = 0;
  const double weight = 1.0 / window.layers();
  for (int l = 0; l < window.layers(); ++l) {
    const LayerSkew s = layer_skew(window.layer(l));
    out.assignments += window.total(l);
    skews.push_back(s.max_over_mean);
    a.max_over_mean += s.max_over_mean * weight;
    a.top1_share += s.top1_share * weight;
    a.top2_share += s.top2_share * weight;
    a.top_tenth_share += s.top_tenth_share * weight;
    a.gini += s.gini * weight;
    a.effective_experts += s.effective_experts * weight;
    for (std::size_t i = 0; i < s.balancedness.size(); ++i) {
      if (s.balancedness[i]) {
        a.balancedness[i] = a.balancedness[i].value_or(0) + *s.balancedness[i] * weight;
        out.worst_balancedness[i] = std::min(out.worst_balancedness[i].value_or(1), *s.balancedness[i]);
      }
    }
  }
  std::sort(skews.begin(), skews.end());
  out.min = skews.front();
  out.median = linear_quantile(skews, 0.5);
  out.mean = a.max_over_mean;
  out.p90 = linear_quantile(skews, 0.9);
  out.max = skews.back();
  return out;
}

LoadWindow whole_window(const TraceFile& trace) {
  const TraceInfo& info = trace.info();
  LoadWindow window(info.layers(), info.experts);
  const auto experts = static_cast<std::size_t>(info.experts), sources = static_cast<std::size_t>(trace.sources());
  std::vector<double> counts(trace.load_row_size());
  std::vector<std::int64_t> row_tokens(sources);
  for (std::int64_t r = 0; r < trace.load_rows(); ++r) {
    trace.read_loads<double>(r, 1, counts, row_tokens);
    for (int l = 0; l < info.layers(); ++l) {
      const auto layer = std::span<const double>(counts).subspan(l * experts * sources, experts * sources);
      add_sources(layer, sources, experts, window.layer(l));
    }
  }
  if (trace.load_rows() > 0) {
    return window;  // tokens beside load rows are the same routing in detail
  }
  constexpr std::int64_t kAtOnce = 4096;
  TraceFile::Tokens block;
  const auto k = static_cast<std::size_t>(info.top_k), layers = static_cast<std::size_t>(info.layers());
  for (std::int64_t t = 0; t < trace.token_count(); t += kAtOnce) {
    trace.read_tokens(t, std::min(kAtOnce, trace.token_count() - t), block);
    for (std::size_t i = 0; i < block.experts.size(); ++i) {
      window.layer(static_cast<int>(i / k % layers))[block.experts[i]] += 1;
    }
  }
  return window;
}

}  // namespace epsim
