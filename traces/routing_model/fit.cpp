#include "traces/routing_model/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/refuse.h"

namespace epsim {

namespace {

constexpr std::size_t kTokensKept = std::size_t{1} << 20;

}  // namespace

RoutingModel default_topics() {
  RoutingModel m;
  m.factors = 8;
  m.domain_ratio = 0.105;
  m.stretch_ratio = 0.27;
  m.kinds = 3;
  m.kind_share = 0.98;
  m.kind_topics = 2.9;
  m.repeat = 0.163;
  m.sequence_tokens = 1024;
  m.topic_tokens = 1024;
  return m;
}

void TraceCollector::begin(const TraceInfo& info, int sources) {
  info_ = info;
  sources_ = static_cast<std::size_t>(sources);
  sums_.assign(static_cast<std::size_t>(info.layers()) * info.experts, 0.0);
  share_sums_.assign(sums_.size() * sources_, 0.0);
  share_squares_ = share_sums_;
}

void TraceCollector::loads(const LoadRow& row) {
  const auto width = static_cast<std::size_t>(info_.experts);
  for (std::size_t at = 0; at < row.counts.size(); at += width) {
    const std::span<const double> counts = row.counts.subspan(at, width);
    const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
    for (std::size_t e = 0; e < width; ++e) {
      const double share = total > 0 ? counts[e] / total : 0.0;
      sums_[at / (width * sources_) * width + e] += counts[e];
      share_sums_[at + e] += share;
      share_squares_[at + e] += share * share;
    }
  }
  row_tokens_ += std::accumulate(row.tokens.begin(), row.tokens.end(), std::int64_t{0});
  ++rows_;
}

void TraceCollector::tokens(const TokenBlock& block) {
  const std::size_t size = static_cast<std::size_t>(info_.layers()) * info_.top_k;
  const std::size_t take = std::min(block.tokens(), kTokensKept - sequence_.size());
  experts_.insert(experts_.end(), block.experts.begin(), block.experts.begin() + take * size);
  sequence_.insert(sequence_.end(), block.sequence.begin(), block.sequence.begin() + take);
  const auto k = static_cast<std::size_t>(info_.top_k), layers = static_cast<std::size_t>(info_.layers());
  for (std::size_t i = 0; i < block.experts.size() && rows_ == 0; ++i) {
    sums_[i / k % layers * static_cast<std::size_t>(info_.experts) + block.experts[i]] += 1;
  }
  all_tokens_ += static_cast<std::int64_t>(block.tokens());
}

void TraceCollector::table(const std::string&, const Table&) {}

// Everything but topics: shapes, popularity, and defaults for the rest.
RoutingModel TraceCollector::fit_popularity(const RoutingFitOptions& options) const {
  RoutingModel m = options.defaults;
  m.name = options.name;
  m.model = info_.model;
  m.model_layers = info_.model_layers;
  m.source = info_.source.empty() ? "not stated" : info_.source;
  m.licence = info_.licence;
  m.experts = info_.experts;
  m.top_k = info_.top_k;
  m.layers.clear();
  const auto width = static_cast<std::size_t>(info_.experts);
  for (int l = 0; l < info_.layers(); ++l) {
    const auto from = sums_.begin() + static_cast<std::size_t>(l) * width;
    LayerRouting layer;
    layer.number = info_.layer_numbers[l];
    layer.shares.assign(from, from + width);
    const double total = std::accumulate(layer.shares.begin(), layer.shares.end(), 0.0);
    refuse_if(!(total > 0), {m.source, 0, ""},
              fmt::format("layer {} has no load at all; there is nothing to fit.", layer.number));
    for (double& s : layer.shares) {
      s /= total;
    }
    layer.sigma = options.sigma;
    m.layers.push_back(std::move(layer));
  }
  return m;
}

RoutingModel TraceCollector::fit(const RoutingFitOptions& options) const {
  RoutingModel m = fit_popularity(options);
  if (!sequence_.empty()) {
    return fit_tokens({info_, experts_, sequence_}, options, std::move(m));
  }
  m.assumed = "the trace has load rows only: popularity is fitted, everything else is assumed.";
  if (rows_ < kRowsForSigma) {
    return m;
  }
  // Variance of a share between rows, beyond that of drawing n k assignments, over the squared share: e^v - 1 of the
  // topics that a row mixes. The model's rows then mix one sequence each.
  const auto width = static_cast<std::size_t>(info_.experts);
  const double assignments =
      static_cast<double>(row_tokens_) / static_cast<double>(rows_ * static_cast<std::int64_t>(sources_)) * m.top_k;
  m.topic_tokens = assignments / m.top_k;
  m.sequence_tokens = m.topic_tokens;
  m.stretch_ratio = m.domain_ratio = 0;
  for (std::size_t l = 0; l < m.layers.size(); ++l) {
    double extra = 0, weight = 0;
    for (std::size_t i = l * width * sources_; i < (l + 1) * width * sources_; ++i) {
      const auto n = static_cast<double>(rows_);
      const double mean = share_sums_[i] / n, variance = (share_squares_[i] - n * mean * mean) / (n - 1);
      // Experts weigh as much as they are used: hot ones decide.
      extra += mean > 0 ? (variance - mean * (1 - mean) / assignments) / mean : 0.0;
      weight += mean;
    }
    m.layers[l].sigma = std::sqrt(std::log1p(std::max(0.0, extra / weight)));
  }
  m.assumed =
      "the trace has load rows only: popularity and the variation between rows are fitted; affinity, bursts and "
      "drift are assumed.";
  return m;
}

}  // namespace epsim
