#include "traces/routing_model/trace_profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"

namespace epsim {

namespace {

constexpr int kMostPairExperts = 512;
constexpr std::int64_t kMostPairTokens = std::int64_t{1} << 18;
constexpr int kFarLag = 8;

double max_over_mean(std::span<const double> counts) {
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  return sum > 0 ? *std::max_element(counts.begin(), counts.end()) * static_cast<double>(counts.size()) / sum : 1.0;
}

// Counts of consecutive tokens until a batch is full.
class Batcher {
 public:
  Batcher(int tokens, int layers, int experts)
      : tokens_(tokens),
        experts_(static_cast<std::size_t>(experts)),
        counts_(static_cast<std::size_t>(layers) * experts_) {
    profile_.tokens = tokens;
    profile_.by_layer.assign(layers, 0.0);
  }
  // True when this token filled the batch: counts() then holds it, until the next call.
  bool add(const std::uint16_t* choice, std::size_t top_k) {
    if (have_ == tokens_) {
      std::fill(counts_.begin(), counts_.end(), 0.0);
      have_ = 0;
    }
    for (std::size_t l = 0; l < profile_.by_layer.size(); ++l) {
      for (std::size_t k = 0; k < top_k; ++k) {
        counts_[l * experts_ + choice[l * top_k + k]] += 1.0;
      }
    }
    if (++have_ < tokens_) {
      return false;
    }
    for (std::size_t l = 0; l < profile_.by_layer.size(); ++l) {
      samples_.push_back(max_over_mean({counts_.data() + l * experts_, experts_}));
      profile_.by_layer[l] += samples_.back();
    }
    ++profile_.batches;
    return true;
  }
  std::span<const double> counts() const { return counts_; }
  BatchProfile finish() {
    std::sort(samples_.begin(), samples_.end());
    for (double& x : profile_.by_layer) {
      x /= static_cast<double>(profile_.batches);
    }
    profile_.mean = std::accumulate(samples_.begin(), samples_.end(), 0.0) / static_cast<double>(samples_.size());
    profile_.p50 = samples_[(samples_.size() - 1) / 2];
    profile_.p95 = samples_[(samples_.size() - 1) * 95 / 100];
    return profile_;
  }
  bool empty() const { return samples_.empty(); }

 private:
  int tokens_, have_ = 0;
  std::size_t experts_;
  std::vector<double> counts_, samples_;
  BatchProfile profile_;
};

// Moments of shares in consecutive rows.
class RowCorrelation {
 public:
  void add(std::span<const double> counts, std::size_t experts) {
    std::vector<double> shares(counts.begin(), counts.end());
    for (std::size_t at = 0; at < shares.size(); at += experts) {
      const double sum = std::accumulate(shares.begin() + at, shares.begin() + (at + experts), 0.0);
      for (std::size_t e = at; e < at + experts; ++e) {
        shares[e] = sum > 0 ? shares[e] / sum : 0.0;
      }
    }
    if (sum_.empty()) {
      sum_.assign(shares.size(), 0.0);
      squares_ = products_ = first_ = sum_;
      first_ = shares;
    }
    for (std::size_t i = 0; i < shares.size(); ++i) {
      sum_[i] += shares[i];
      squares_[i] += shares[i] * shares[i];
      products_[i] += last_.empty() ? 0.0 : shares[i] * last_[i];
    }
    last_ = std::move(shares);
    ++rows_;
  }
  std::optional<double> finish() const {
    if (rows_ < 3) {
      return std::nullopt;
    }
    const auto n = static_cast<double>(rows_);
    double variance = 0, covariance = 0;
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      const double mean = sum_[i] / n;
      variance += squares_[i] / n - mean * mean;
      // The pairs' own means leave out the last or the first row.
      const double early = (sum_[i] - last_[i]) / (n - 1), late = (sum_[i] - first_[i]) / (n - 1);
      covariance += products_[i] / (n - 1) - early * late;
    }
    return variance > 0 ? std::optional(covariance / variance) : std::nullopt;
  }

 private:
  std::vector<double> sum_, squares_, products_, first_, last_;
  std::int64_t rows_ = 0;
};

// Pairs of experts that tokens use: within a layer (unordered, both ways round) or of two layers.
class PairTable {
 public:
  explicit PairTable(int experts) : experts_(static_cast<std::size_t>(experts)), counts_(experts_ * experts_, 0U) {}
  void add(const std::uint16_t* a, const std::uint16_t* b, std::size_t top_k, bool same) {
    for (std::size_t i = 0; i < top_k; ++i) {
      for (std::size_t j = 0; j < top_k; ++j) {
        counts_[a[i] * experts_ + b[j]] += same && i == j ? 0U : 1U;
      }
    }
  }
  // Against independent pairs with the table's own margins; within a layer, pairs of different experts.
  double distance(bool same) const {
    std::vector<double> rows(experts_, 0.0), columns(experts_, 0.0);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      rows[i / experts_] += counts_[i];
      columns[i % experts_] += counts_[i];
    }
    const double total = std::accumulate(rows.begin(), rows.end(), 0.0);
    double diagonal = 0;
    for (std::size_t e = 0; same && e < experts_; ++e) {
      diagonal += rows[e] / total * (columns[e] / total);
    }
    double sum = 0;
    for (std::size_t i = 0; i < counts_.size() && total > 0; ++i) {
      const bool on = same && i / experts_ == i % experts_;
      const double expected = on ? 0 : rows[i / experts_] / total * (columns[i % experts_] / total) / (1 - diagonal);
      sum += std::abs(counts_[i] / total - expected);
    }
    return 0.5 * sum;
  }

 private:
  std::size_t experts_;
  std::vector<std::uint32_t> counts_;
};

}  // namespace

struct TraceProfiler::State {
  TraceProfile profile;
  bool pairs = true;
  int sources = 1;
  std::size_t layers = 0, experts = 0, top_k = 0;
  std::vector<Batcher> batchers;
  RowCorrelation rows, batches;
  std::vector<PairTable> within, between;
  double row_skew = 0;
  std::int64_t row_skews = 0;
  std::array<double, 2> shared{};  // experts in common, lag 1 and kFarLag
  std::array<std::int64_t, 2> compared{};
  std::vector<std::uint16_t> recent;  // ring of the last kFarLag tokens
  std::vector<std::int32_t> recent_sequence;

  void token(const std::uint16_t* choice, std::int32_t sequence);
  void compare_with_recent(const std::uint16_t* choice, std::int32_t sequence);
};

TraceProfiler::TraceProfiler(bool pairs) : state_(std::make_unique<State>()) { state_->pairs = pairs; }
TraceProfiler::~TraceProfiler() = default;

void TraceProfiler::begin(const TraceInfo& info, int sources) {
  State& s = *state_;
  s.profile.info = info;
  s.sources = sources;
  s.layers = static_cast<std::size_t>(info.layers());
  s.experts = static_cast<std::size_t>(info.experts);
  s.top_k = static_cast<std::size_t>(info.top_k);
  s.profile.counts.assign(s.layers, std::vector<double>(s.experts, 0.0));
}

void TraceProfiler::loads(const LoadRow& row) {
  State& s = *state_;
  std::vector<double> merged(s.layers * s.experts, 0.0);
  add_sources(row.counts, static_cast<std::size_t>(s.sources), s.experts, std::span(merged));
  for (std::size_t l = 0; l < s.layers; ++l) {
    const std::span<const double> counts = std::span<const double>(merged).subspan(l * s.experts, s.experts);
    std::vector<double>& sum = s.profile.counts[l];
    std::transform(counts.begin(), counts.end(), sum.begin(), sum.begin(), std::plus<>());
    s.row_skew += max_over_mean(counts);
    ++s.row_skews;
  }
  s.rows.add(merged, s.experts);
  ++s.profile.rows;
}

void TraceProfiler::State::compare_with_recent(const std::uint16_t* choice, std::int32_t sequence) {
  const std::size_t size = layers * top_k, now = static_cast<std::size_t>(profile.tokens) % kFarLag;
  for (std::size_t which = 0; which < 2; ++which) {
    const std::size_t lag = which == 0 ? 1 : kFarLag, slot = (now + kFarLag - lag) % kFarLag;
    if (static_cast<std::size_t>(profile.tokens) < lag || recent_sequence[slot] != sequence) {
      continue;
    }
    const std::uint16_t* other = recent.data() + slot * size;
    for (std::size_t i = 0; i < size; ++i) {
      const std::uint16_t* from = other + i / top_k * top_k;
      shared[which] += std::find(from, from + top_k, choice[i]) != from + top_k ? 1.0 : 0.0;
    }
    compared[which] += static_cast<std::int64_t>(layers);
  }
  std::copy_n(choice, size, recent.begin() + now * size);
  recent_sequence[now] = sequence;
}

void TraceProfiler::State::token(const std::uint16_t* choice, std::int32_t sequence) {
  compare_with_recent(choice, sequence);
  for (Batcher& batcher : batchers) {
    if (batcher.add(choice, top_k) && &batcher == &batchers[1]) {
      batches.add(batcher.counts(), experts);
    }
  }
  for (std::size_t i = 0; i < layers * top_k; ++i) {
    profile.counts[i / top_k][choice[i]] += 1.0;
  }
  const bool counted = profile.tokens < kMostPairTokens;
  for (std::size_t l = 0; l < within.size() && counted; ++l) {
    within[l].add(choice + l * top_k, choice + l * top_k, top_k, true);
  }
  for (std::size_t l = 0; l < between.size() && counted; ++l) {
    between[l].add(choice + l * top_k, choice + (l + 1) * top_k, top_k, false);
  }
  ++profile.tokens;
}

void TraceProfiler::tokens(const TokenBlock& block) {
  State& s = *state_;
  if (s.batchers.empty()) {
    for (const int size : kProfileBatches) {
      s.batchers.emplace_back(size, static_cast<int>(s.layers), static_cast<int>(s.experts));
    }
    const bool pairs = s.pairs && s.experts <= kMostPairExperts;
    s.within.assign(pairs && s.top_k > 1 ? s.layers : 0, PairTable(static_cast<int>(s.experts)));
    s.between.assign(pairs ? s.layers - 1 : 0, PairTable(static_cast<int>(s.experts)));
    s.recent.resize(kFarLag * s.layers * s.top_k);
    s.recent_sequence.assign(kFarLag, -1);
  }
  for (std::size_t t = 0; t < block.tokens(); ++t) {
    s.token(block.experts.data() + t * s.layers * s.top_k, block.sequence[t]);
  }
}

TraceProfile TraceProfiler::finish() {
  State& s = *state_;
  TraceProfile& p = s.profile;
  for (std::size_t l = 0; l < s.layers; ++l) {
    p.layers.push_back(layer_skew(p.counts[l]));
  }
  for (Batcher& batcher : s.batchers) {
    if (!batcher.empty()) {
      p.batches.push_back(batcher.finish());
    }
  }
  p.autocorrelation = p.rows > 0 ? s.rows.finish() : s.batches.finish();
  if (s.row_skews > 0) {
    p.row_max_over_mean = s.row_skew / static_cast<double>(s.row_skews);
  }
  if (s.compared[0] > 0) {
    p.overlap_1 = s.shared[0] / static_cast<double>(s.compared[0]);
  }
  if (s.compared[1] > 0) {
    p.overlap_8 = s.shared[1] / static_cast<double>(s.compared[1]);
  }
  const auto mean = [](const std::vector<PairTable>& tables, bool same) {
    double sum = 0;
    for (const PairTable& table : tables) {
      sum += table.distance(same);
    }
    return sum / static_cast<double>(tables.size());
  };
  if (!s.within.empty()) {
    p.affinity = mean(s.within, true);
  }
  if (!s.between.empty()) {
    p.next_layer = mean(s.between, false);
  }
  return std::move(p);
}

}  // namespace epsim
