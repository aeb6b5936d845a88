// Fits what takes single tokens: topics, kinds, bursts, repeats, lengths.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "traces/routing_model/fit.h"
#include "traces/routing_model/model_load_source.h"
#include "traces/routing_model/token_sampler.h"
#include "traces/routing_model/trace_profile.h"

namespace epsim {

namespace {

constexpr double kPriorTokens = 16;    // weight of the popularity in a sequence's shares
constexpr int kPowerRounds = 30;       // of the subspace iteration
constexpr std::size_t kShortest = 32;  // tokens that a sequence needs to take part in the components
constexpr std::int64_t kSimulatedDomains = 24, kSimulatedTokens = 4096;  // of a round

// Sequences as runs of tokens with one number.
std::vector<std::size_t> sequence_ends(std::span<const std::int32_t> sequence) {
  std::vector<std::size_t> ends;
  for (std::size_t t = 0; t < sequence.size(); ++t) {
    if (t + 1 == sequence.size() || sequence[t + 1] != sequence[t]) {
      ends.push_back(t + 1);
    }
  }
  return ends;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Mean, spread and cut of the sequences' lengths. The mean is that before cutting, such that after it, it is the
// trace's.
void fit_lengths(std::span<const std::size_t> ends, RoutingModel& m) {
  std::vector<double> lengths;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    lengths.push_back(static_cast<double>(ends[i] - (i == 0 ? 0 : ends[i - 1])));
  }
  const auto n = static_cast<double>(lengths.size());
  const double mean = std::accumulate(lengths.begin(), lengths.end(), 0.0) / n;
  double log_mean = 0, log_square = 0;
  for (const double x : lengths) {
    log_mean += std::log(x) / n;
    log_square += std::log(x) * std::log(x) / n;
  }
  m.sequence_log_sigma = std::sqrt(std::max(0.0, log_square - log_mean * log_mean));
  const double longest = *std::max_element(lengths.begin(), lengths.end()), s = m.sequence_log_sigma;
  m.longest_sequence = static_cast<std::int64_t>(longest);
  double low = std::log(mean) - s * s, high = std::log(mean) + 4;
  for (int i = 0; i < 100 && s > 0; ++i) {
    const double mu = 0.5 * (low + high), cut = (std::log(longest) - mu) / s;
    const double after = std::exp(mu + 0.5 * s * s) * normal_cdf(cut - s) + longest * (1 - normal_cdf(cut));
    (after < mean ? low : high) = mu;
  }
  m.sequence_tokens = s > 0 ? std::max(1.0, std::exp(low + 0.5 * s * s)) : mean;
}

// Log shares of each sequence against the popularity, centred: one row per sequence, [layer][expert].
class SequenceShares {
 public:
  SequenceShares(const TokenTrace& trace, std::span<const std::size_t> ends, const RoutingModel& m)
      : width_(m.layers.size() * static_cast<std::size_t>(m.experts)) {
    const auto k = static_cast<std::size_t>(m.top_k), layers = m.layers.size();
    const auto experts = static_cast<std::size_t>(m.experts);
    std::vector<double> counts(width_);
    for (std::size_t i = 0, first = 0; i < ends.size(); first = ends[i++]) {
      if (ends[i] - first < kShortest) {
        continue;
      }
      std::fill(counts.begin(), counts.end(), 0.0);
      for (std::size_t at = first * layers * k; at < ends[i] * layers * k; ++at) {
        counts[at / k % layers * experts + trace.experts[at]] += 1;
      }
      const auto tokens = static_cast<double>(ends[i] - first);
      for (std::size_t j = 0; j < width_; ++j) {
        const double mean = m.layers[j / experts].shares[j % experts] * static_cast<double>(k);
        // An expert that nobody uses has no topics.
        rows_.push_back(mean > 0 ? std::log((counts[j] + kPriorTokens * mean) / ((tokens + kPriorTokens) * mean))
                                 : 0.0);
      }
    }
    centre();
  }
  std::size_t rows() const { return rows_.size() / width_; }
  std::size_t width() const { return width_; }
  std::span<const double> row(std::size_t i) const { return {rows_.data() + i * width_, width_}; }

 private:
  void centre() {
    for (std::size_t j = 0; j < width_ && rows() > 0; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < rows(); ++i) {
        sum += rows_[i * width_ + j];
      }
      for (std::size_t i = 0; i < rows(); ++i) {
        rows_[i * width_ + j] -= sum / static_cast<double>(rows());
      }
    }
  }
  std::size_t width_;
  std::vector<double> rows_;
};

using Vectors = std::vector<std::vector<double>>;

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void orthonormalise(Vectors& vectors) {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double along = dot(vectors[i], vectors[j]);
      for (std::size_t d = 0; d < vectors[i].size(); ++d) {
        vectors[i][d] -= along * vectors[j][d];
      }
    }
    const double norm = std::sqrt(dot(vectors[i], vectors[i]));
    for (double& x : vectors[i]) {
      x /= norm > 0 ? norm : 1;
    }
  }
}

// The first principal directions of the rows, each times the standard deviation along it (subspace iteration).
Vectors principal(const SequenceShares& shares, int count, Seed seed) {
  RandomStream random(seed, "fit.start");
  Vectors basis(static_cast<std::size_t>(count), std::vector<double>(shares.width()));
  for (auto& v : basis) {
    std::generate(v.begin(), v.end(), [&] { return random.normal(); });
  }
  orthonormalise(basis);
  for (int round = 0; round <= kPowerRounds; ++round) {
    Vectors next(basis.size(), std::vector<double>(shares.width(), 0.0));
    for (std::size_t i = 0; i < shares.rows(); ++i) {
      for (std::size_t f = 0; f < basis.size(); ++f) {
        const double along = dot(shares.row(i), basis[f]);
        std::transform(next[f].begin(), next[f].end(), shares.row(i).begin(), next[f].begin(),
                       [&](double x, double y) { return x + along * y; });
      }
    }
    if (round < kPowerRounds) {
      orthonormalise(next);
      basis = std::move(next);
      continue;
    }
    for (std::size_t f = 0; f < basis.size(); ++f) {
      const double deviation = std::sqrt(dot(next[f], basis[f]) / static_cast<double>(shares.rows()));
      for (double& x : basis[f]) {
        x *= deviation;
      }
    }
  }
  return basis;
}

// Loadings of every layer, mean square norm 1; sigma from what all of the sequences' variance is, noise included (the
// simulation corrects it).
void fit_loadings(const TokenTrace& trace, std::span<const std::size_t> ends, const RoutingFitOptions& options,
                  RoutingModel& m) {
  const SequenceShares shares(trace, ends, m);
  if (shares.rows() < 4 * static_cast<std::size_t>(options.fitted_factors)) {
    return;  // too few sequences to tell directions from chance: loadings stay drawn
  }
  const Vectors directions = principal(shares, options.fitted_factors, options.seed);
  const auto experts = static_cast<std::size_t>(m.experts);
  m.fitted_factors = options.fitted_factors;
  double all = 0, found = 0;
  for (std::size_t i = 0; i < shares.rows(); ++i) {
    all += dot(shares.row(i), shares.row(i)) / static_cast<double>(shares.rows());
  }
  for (std::size_t l = 0; l < m.layers.size(); ++l) {
    double norm = 0;
    LayerRouting& layer = m.layers[l];
    for (std::size_t e = 0; e < experts; ++e) {
      for (const auto& d : directions) {
        layer.loadings.push_back(static_cast<float>(d[l * experts + e]));
        norm += d[l * experts + e] * d[l * experts + e];
      }
    }
    found += norm;
    layer.sigma = std::sqrt(norm / m.experts);
    for (float& x : layer.loadings) {
      x /= static_cast<float>(layer.sigma);
    }
  }
  // The rest of the variance is part noise of short sequences, part structure beyond these factors: half each, say.
  m.fitted_share = found / (found + 0.5 * (all - found));
}

// Profiles of batches from traces that the model generates, over domains of their own.
TraceProfile simulate(const RoutingModel& m, bool pairs, Seed seed) {
  const RoutingLaw law(m);
  TokenSampler sampler(law, seed);
  TraceProfiler profiler(pairs);
  TraceInfo info = trace_info_of(m, "");
  profiler.begin(info, 1);
  const std::size_t size = m.layers.size() * static_cast<std::size_t>(m.top_k);
  std::vector<std::uint16_t> experts;
  std::vector<std::int32_t> sequence;
  for (std::int64_t d = 0; d < kSimulatedDomains; ++d) {
    std::int64_t number = d * m.domain_sequences;
    for (std::int64_t have = 0; have < kSimulatedTokens; ++number) {
      const std::int64_t n = std::min(sampler.length(number), kSimulatedTokens - have);
      experts.resize(static_cast<std::size_t>(n) * size);
      sequence.assign(n, static_cast<std::int32_t>(number));
      sampler.sample(number, n, experts);
      profiler.tokens({experts, {}, sequence, sequence});
      have += n;
    }
  }
  return profiler.finish();
}

TraceProfile profile_of(const TokenTrace& trace) {
  TraceProfiler profiler;
  profiler.begin(trace.info, 1);
  profiler.tokens({trace.experts, {}, trace.sequence, trace.sequence});
  return profiler.finish();
}

// Moves sigma, stretch_ratio and domain_ratio a little towards what makes the simulated batches like the real ones.
void correct(const TraceProfile& real, const TraceProfile& made, RoutingModel& m) {
  const auto& r = real.batches;
  const auto& s = made.batches;
  for (std::size_t l = 0; l < m.layers.size(); ++l) {
    // Skew beyond the popularity's own.
    const double base = real.layers[l].max_over_mean * 0.9;
    const double ratio = std::max(0.05, r[1].by_layer[l] - base) / std::max(0.05, s[1].by_layer[l] - base);
    m.layers[l].sigma = std::min(4.0, m.layers[l].sigma * std::clamp(std::pow(ratio, 0.6), 0.6, 1.6));
  }
  const auto move = [](double ratio, double by) { return std::sqrt(std::clamp(ratio * ratio + by, 0.0, 4.0)); };
  m.stretch_ratio = move(m.stretch_ratio, 1.5 * (r[0].mean / r[1].mean - s[0].mean / s[1].mean));
  if (r.size() > 3) {
    m.domain_ratio = move(m.domain_ratio, 1.5 * (r[3].mean / r[1].mean - s[3].mean / s[1].mean));
  }
}

// Moves kind_share towards the real affinity, kind_topics so that bursts stay what they are without kinds, and repeat
// so that successive tokens share as many experts more than distant ones.
void correct_kinds(const TraceProfile& real, const TraceProfile& made, RoutingModel& m) {
  const double squared = m.kind_share * m.kind_share + 1.5 * (*real.affinity - *made.affinity);
  m.kind_share = std::sqrt(std::clamp(squared, 0.0, 0.96));
  const double ratio = (real.batches[1].mean - 1) / (made.batches[1].mean - 1);
  m.kind_topics = std::clamp(m.kind_topics * ratio, 1.0, 4.0);
  if (real.overlap_1 && real.overlap_8 && made.overlap_1 && made.overlap_8) {
    const double more = (*real.overlap_1 - *real.overlap_8) - (*made.overlap_1 - *made.overlap_8);
    m.repeat = std::clamp(m.repeat + more / (m.top_k - *real.overlap_8), 0.0, 0.95);
  }
}

}  // namespace

RoutingModel fit_tokens(const TokenTrace& trace, const RoutingFitOptions& options, RoutingModel m) {
  const std::vector<std::size_t> ends = sequence_ends(trace.sequence);
  fit_lengths(ends, m);
  fit_loadings(trace, ends, options, m);
  m.topic_tokens = m.sequence_tokens;
  const TraceProfile real = profile_of(trace);
  if (real.overlap_1 && real.overlap_8) {
    m.repeat = std::clamp((*real.overlap_1 - *real.overlap_8) / (m.top_k - *real.overlap_8), 0.0, 0.95);
  }
  m.assumed = "drift: the number of sequences in a domain.";
  m.kinds = 0;  // come last
  m.kind_share = 0;
  m.kind_topics = 1;
  if (real.batches.size() < 2) {
    m.assumed = "bursts and drift: the trace is shorter than 256 tokens.";
    return m;
  }
  // The same draws every round: what changes between rounds is the model.
  for (int round = 0; round < options.rounds; ++round) {
    correct(real, simulate(m, false, options.seed), m);
  }
  if (real.affinity && options.kinds > 1) {
    m.kinds = options.kinds;
  }
  for (int round = 0; round < options.rounds && m.kinds > 0; ++round) {
    correct_kinds(real, simulate(m, true, options.seed), m);
  }
  return m;
}

}  // namespace epsim
