#include "traces/routing_model/model_load_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/fingerprint.h"
#include "traces/routing_model/count_draws.h"
#include "traces/routing_model/count_rounding.h"
#include "traces/routing_model/row_kernels.h"
#include "traces/routing_model/topics.h"

namespace epsim {

struct ModelLoadSource::Mix {
  double tokens = 0, sequences = 0, stretches = 0;  // as many of equal length as spread alike
  int trials = 0;                                   // count_trials()
  std::vector<float> domain, sequence, stretch;     // [factors], of variance domain_ratio^2, 1 and stretch_ratio^2
};

namespace {

constexpr std::size_t kRowsAtOnce = 4;

// Deviation of the topics' average over `count` draws, relative to one draw's, so that lognormals have the right
// variance: v = ln(1 + (e^s - 1) / count) instead of s.
double averaged(double variance, double count) {
  return variance > 0 && count > 1 ? std::sqrt(std::log1p(std::expm1(variance) / count) / variance) : 1.0;
}

// Parts of equal weight whose average spreads as the tokens' does: prompts fall into parts of `length` tokens, every
// decode is one. Variances add with the squares of weights: tokens^2 / (prompts x length + decodes).
double equal_parts(double tokens, double decodes, double length) {
  const double prompts = tokens - decodes;
  return decodes > 0 ? tokens * tokens / (prompts * std::min(prompts, length) + decodes) : tokens / length;
}

}  // namespace

ModelLoadSource::ModelLoadSource(std::shared_ptr<const RoutingLaw> law, bool one_mix, Seed seed,
                                 std::int64_t hold_steps)
    : law_(std::move(law)),
      one_mix_(one_mix),
      seed_(seed),
      hold_steps_(hold_steps),
      key_(RandomStream(seed, "model.counts").bits()) {}

ModelLoadSource::Mix ModelLoadSource::mix_of(std::int64_t step, int source, Brought brought) const {
  const RoutingModel& m = law_->model();
  const auto tokens = static_cast<double>(brought.tokens), decodes = static_cast<double>(brought.decodes);
  const double stretch_tokens = std::min(m.topic_tokens, static_cast<double>(m.stretch_tokens));
  Mix mix{tokens,
          equal_parts(tokens, decodes, m.topic_tokens),
          equal_parts(tokens, decodes, stretch_tokens),
          count_trials(tokens, m.overdispersion, m.top_k, m.experts),
          std::vector<float>(law_->factors()),
          std::vector<float>(law_->factors()),
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
  const double whole = averaged(spread, mix.sequences), part = averaged(spread * stretch2, mix.stretches);
  const auto by_sequence = static_cast<float>(whole), by_stretch = static_cast<float>(part);
  for (std::size_t f = 0; f < z.size(); ++f) {
    z[f] = mix.domain[f] + by_sequence * mix.sequence[f] + by_stretch * mix.stretch[f];
  }
  return static_cast<float>(domain2 + whole * whole + stretch2 * part * part);
}

// The rows' chances in `values`, still roots, and how a draw goes around them.
NoisyRow ModelLoadSource::start_row(int layer, const Mix& mix, std::uint64_t key, std::span<float> values) const {
  std::array<float, kMostFactors> z;
  const std::span<float> topic(z.data(), law_->factors());
  const float variance = place(layer, mix, topic);
  const float scale = static_cast<float>(law_->top_k()) / law_->roots(layer, topic, variance, values);
  // A count's deviation, sqrt(pi (1 - pi) / n), is the root times the rest.
  const float noise = std::sqrt(scale * static_cast<float>(law_->model().overdispersion / mix.tokens)) /
                      static_cast<float>(ByteGaussian::kDeviation);
  return {.values = values.data(), .scale = scale, .noise = noise, .key = key};
}

// What scales a drawn row to top-k.
float ModelLoadSource::scale_of(const NoisyRow& row) const {
  const auto k = static_cast<float>(law_->top_k());
  if (row.highest * k <= row.total) {
    return k / row.total;
  }
  scale_capped({row.values, law_->stride()}, law_->top_k());
  return 1.0F;
}

// Chances per token, or whole counts, of one drawn row.
void ModelLoadSource::finish_row(const NoisyRow& row, double tokens, bool counts, std::span<float> to) const {
  const float scale = scale_of(row);
  if (counts) {
    const auto n = static_cast<std::int64_t>(tokens);
    const std::size_t padded = (to.size() + kLanes - 1) / kLanes * kLanes;
    round_counts(std::span<const float>(row.values, padded), scale * static_cast<float>(n), n * law_->top_k(),
                 static_cast<float>(n), row.key % to.size(), to);
  } else {
    std::transform(row.values, row.values + to.size(), to.begin(), [&](float x) { return x * scale; });
  }
}

// The same of a row of few tokens that is not drawn yet: its roots become `drawn`, [stride].
void ModelLoadSource::count_row(NoisyRow row, const Mix& mix, std::span<float> drawn, bool counts,
                                std::span<float> to) const {
  const std::span<float> chances(row.values, law_->stride());
  std::ranges::transform(chances, chances.begin(), [&](float root) { return std::min(1.0F, root * root * row.scale); });
  std::ranges::fill(chances.subspan(to.size()), 0.0F);
  draw_choices(chances, mix.trials, law_->top_k(), row.key, drawn);
  row.values = drawn.data();
  row.total = static_cast<float>(mix.trials * law_->top_k());
  finish_row(row, mix.tokens, counts, to);
}

void ModelLoadSource::mean_row(int layer, bool counts, std::span<float> to) const {
  const std::span<const double> mean = law_->popularity(layer);
  std::transform(mean.begin(), mean.end(), to.begin(),
                 [&](double share) { return counts ? 0.0F : static_cast<float>(share * law_->top_k()); });
}

// [layer][source]: four rows at a time, as their noise is drawn side by side.
void ModelLoadSource::draw_step(std::int64_t step, std::span<const Brought> brought, bool counts,
                                std::span<float> out) const {
  std::vector<Mix> mixes;
  for (std::size_t s = 0; s < brought.size(); ++s) {
    mixes.push_back(mix_of(step, static_cast<int>(s), brought[s]));
  }
  const auto width = static_cast<std::size_t>(experts());
  const std::size_t rows = out.size() / width;
  std::vector<float> values((kRowsAtOnce + 1) * law_->stride());
  const std::span<float> scratch = std::span(values).last(law_->stride());
  std::array<NoisyRow, kRowsAtOnce> drawn;
  std::array<std::size_t, kRowsAtOnce> places;
  const std::uint64_t step_key = Fingerprint::mix(key_ ^ Fingerprint::mix(static_cast<std::uint64_t>(step) + 1));
  for (std::size_t at = 0, ready = 0; at < rows; ++at) {
    const int layer = static_cast<int>(at / mixes.size());
    const Mix& mix = mixes[at % mixes.size()];
    if (mix.tokens == 0) {
      mean_row(layer, counts, out.subspan(at * width, width));
    } else {
      const NoisyRow row = start_row(layer, mix, Fingerprint::mix(step_key + at),
                                     std::span(values).subspan(ready * law_->stride(), law_->stride()));
      if (mix.trials > 0) {
        count_row(row, mix, scratch, counts, out.subspan(at * width, width));
      } else {
        drawn[ready] = row;
        places[ready++] = at;
      }
    }
    if (ready == kRowsAtOnce || at + 1 == rows) {
      add_row_noise(std::span(drawn).first(ready), law_->stride());
      for (std::size_t r = 0; r < ready; ++r) {
        finish_row(drawn[r], mixes[places[r] % mixes.size()].tokens, counts, out.subspan(places[r] * width, width));
      }
      ready = 0;
    }
  }
}

void ModelLoadSource::draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const {
  draw_mixed(at, tokens, {}, out);
}

void ModelLoadSource::draw_mixed(const StepAt& at, std::span<const std::int64_t> tokens,
                                 std::span<const std::int64_t> decodes, StepLoads& out) const {
  EPSIM_CHECK(decodes.empty() || decodes.size() == tokens.size(), "decodes are given for every rank");
  std::vector<Brought> brought(one_mix_ || tokens.size() <= 1 ? 1 : tokens.size());
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    Brought& source = brought[brought.size() == 1 ? 0 : r];
    source.tokens += tokens[r];
    source.decodes += decodes.empty() ? 0 : decodes[r];
  }
  out.resize(layers(), static_cast<int>(brought.size()), experts());
  out.counted = counted();
  draw_step(at.number - at.number % hold_steps_, brought, false, out.per_token);
}

void ModelLoadSource::draw_counts(std::int64_t step, std::span<const std::int64_t> tokens, std::span<float> out) const {
  EPSIM_CHECK(out.size() == static_cast<std::size_t>(layers()) * tokens.size() * experts(),
              "one count per layer, source and expert");
  std::vector<Brought> brought;
  for (const std::int64_t n : tokens) {
    EPSIM_CHECK(n >= 0 && n <= kMostTokens, "a source brings 0 to 2^20 tokens");
    brought.push_back({n, 0});
  }
  draw_step(step, brought, true, out);
}

}  // namespace epsim
