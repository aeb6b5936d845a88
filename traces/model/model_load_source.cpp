#include "traces/model/model_load_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/fingerprint.h"
#include "traces/model/count_rounding.h"
#include "traces/model/row_kernels.h"
#include "traces/model/topics.h"

namespace epsim {

struct ModelLoadSource::Mix {
  double tokens = 0;
  std::vector<float> domain, sequence, stretch;  // [factors], of variance domain_ratio^2, 1 and stretch_ratio^2
};

namespace {

// Deviation of the topics' average over `count` draws, relative to one draw's, so that lognormals have the right
// variance: v = ln(1 + (e^s - 1) / count) instead of s.
double averaged(double variance, double count) {
  return variance > 0 && count > 1 ? std::sqrt(std::log1p(std::expm1(variance) / count) / variance) : 1.0;
}

}  // namespace

ModelLoadSource::ModelLoadSource(std::shared_ptr<const RoutingLaw> law, bool one_mix, Seed seed)
    : law_(std::move(law)), one_mix_(one_mix), seed_(seed), key_(RandomStream(seed, "model.counts").bits()) {}

ModelLoadSource::Mix ModelLoadSource::mix_of(std::int64_t step, int source, std::int64_t tokens) const {
  const RoutingModel& m = law_->model();
  Mix mix{static_cast<double>(tokens), std::vector<float>(law_->factors()), std::vector<float>(law_->factors()),
          std::vector<float>(law_->factors())};
  const auto rank = static_cast<std::uint64_t>(source);
  const auto time = static_cast<double>(step);
  add_moving_normal(mix.domain, m.domain_ratio * std::sqrt(m.common), time / m.domain_steps, seed_, "model.domain", 0);
  if (m.common < 1) {
    add_moving_normal(mix.domain, m.domain_ratio * std::sqrt(1 - m.common), time / m.domain_steps, seed_,
                      "model.rank_domain", rank);
  }
  // Ranks change their sequences at different times.
  const double offset = m.topic_steps > 1 ? RandomStream(seed_, "model.offset", rank).uniform() : 0.0;
  add_moving_normal(mix.sequence, 1.0, time / m.topic_steps + offset, seed_, "model.sequence", rank);
  if (m.stretch_ratio > 0) {
    add_normal(mix.stretch, m.stretch_ratio, seed_, "model.stretch", static_cast<std::uint64_t>(step), rank);
  }
  return mix;
}

// The topics of one layer: the mix's, each averaged over the sequences and stretches that the step's tokens come from.
float ModelLoadSource::place(int layer, const Mix& mix, std::span<float> z) const {
  const RoutingModel& m = law_->model();
  const double spread = static_cast<double>(law_->spread(layer));
  const double domain2 = m.domain_ratio * m.domain_ratio, stretch2 = m.stretch_ratio * m.stretch_ratio;
  const double stretch_tokens = std::min(m.topic_tokens, static_cast<double>(m.stretch_tokens));
  const double whole = averaged(spread, mix.tokens / m.topic_tokens);
  const double part = averaged(spread * stretch2, mix.tokens / stretch_tokens);
  const auto by_sequence = static_cast<float>(whole), by_stretch = static_cast<float>(part);
  for (std::size_t f = 0; f < z.size(); ++f) {
    z[f] = mix.domain[f] + by_sequence * mix.sequence[f] + by_stretch * mix.stretch[f];
  }
  return static_cast<float>(domain2 + whole * whole + stretch2 * part * part);
}

// Draws around the chances that `row` holds the square roots of, in place; returns what scales the row to top-k.
float ModelLoadSource::add_noise(float scale, double tokens, std::uint64_t key, std::span<float> row) const {
  // A count's deviation, sqrt(pi (1 - pi) / n), is the root times the rest.
  const float noise = std::sqrt(scale * static_cast<float>(law_->model().overdispersion / tokens)) /
                      static_cast<float>(ByteGaussian::kDeviation);
  const RowSum sum = add_row_noise(scale, noise, key, row);
  const auto k = static_cast<float>(law_->top_k());
  if (sum.highest * k <= sum.total) {
    return k / sum.total;
  }
  scale_capped(row, law_->top_k());
  return 1.0F;
}

float ModelLoadSource::draw_row(int layer, const Mix& mix, std::uint64_t key, std::span<float> row) const {
  std::array<float, kMostFactors> z;
  const std::span<float> topic(z.data(), law_->factors());
  const float variance = place(layer, mix, topic);
  const float scale = static_cast<float>(law_->top_k()) / law_->roots(layer, topic, variance, row);
  return add_noise(scale, mix.tokens, key, row);
}

void ModelLoadSource::draw_step(std::int64_t step, std::span<const std::int64_t> tokens, bool counts,
                                std::span<float> out) const {
  std::vector<Mix> mixes;
  for (std::size_t s = 0; s < tokens.size(); ++s) {
    mixes.push_back(mix_of(step, static_cast<int>(s), tokens[s]));
  }
  const auto width = static_cast<std::size_t>(experts());
  std::vector<float> row(law_->stride());
  const std::uint64_t step_key = Fingerprint::mix(key_ ^ Fingerprint::mix(static_cast<std::uint64_t>(step) + 1));
  for (std::size_t at = 0; at < out.size() / width; ++at) {
    const int layer = static_cast<int>(at / mixes.size());
    const Mix& mix = mixes[at % mixes.size()];
    const std::span<float> to = out.subspan(at * width, width);
    if (mix.tokens == 0) {
      const std::span<const double> mean = law_->popularity(layer);
      std::transform(mean.begin(), mean.end(), to.begin(),
                     [&](double share) { return counts ? 0.0F : static_cast<float>(share * law_->top_k()); });
      continue;
    }
    const std::uint64_t key = Fingerprint::mix(step_key + at);
    const float scale = draw_row(layer, mix, key, row);
    if (counts) {
      const auto n = static_cast<std::int64_t>(mix.tokens);
      round_counts(std::span(row).first((width + kLanes - 1) / kLanes * kLanes), scale * static_cast<float>(n),
                   n * law_->top_k(), static_cast<float>(n), key % width, to);
    } else {
      std::transform(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(width), to.begin(),
                     [&](float x) { return x * scale; });
    }
  }
}

void ModelLoadSource::draw(std::int64_t step, std::span<const std::int64_t> tokens, StepLoads& out) const {
  if (one_mix_ || tokens.size() <= 1) {
    const std::int64_t total = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    out.resize(layers(), 1, experts());
    draw_step(step, {&total, 1}, false, out.per_token);
    return;
  }
  out.resize(layers(), static_cast<int>(tokens.size()), experts());
  draw_step(step, tokens, false, out.per_token);
}

void ModelLoadSource::draw_counts(std::int64_t step, std::span<const std::int64_t> tokens, std::span<float> out) const {
  EPSIM_CHECK(out.size() == static_cast<std::size_t>(layers()) * tokens.size() * static_cast<std::size_t>(experts()),
              "one count per layer, source and expert");
  for (const std::int64_t n : tokens) {
    EPSIM_CHECK(n >= 0 && n <= kMostTokens, "a source brings 0 to 2^20 tokens");
  }
  draw_step(step, tokens, true, out);
}

}  // namespace epsim
