#include "traces/routing_model/routing_law.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/mapped.h"
#include "traces/routing_model/row_kernels.h"

namespace epsim {

namespace {

constexpr float kNoShare = -200.0F;  // e^-80 and less: an expert that is never chosen
constexpr int kTopics = 512;         // topics that the calibration averages over
constexpr int kRounds = 5;           // of the calibration; it converges by about a factor of 4 a round

}  // namespace

void scale_capped(std::span<float> row, double total) {
  const auto first = static_cast<float>(total / std::accumulate(row.begin(), row.end(), 0.0));
  for (float& x : row) {
    x *= first;
  }
  cap_row(row, 1.0F, total);
}

RoutingLaw::RoutingLaw(RoutingModel model)
    : model_(std::move(model)),
      stride_((static_cast<std::size_t>(model_.experts) + kWide - 1) / kWide * kWide),
      factors_(static_cast<std::size_t>(model_.factors + model_.fitted_factors)),
      popularity_(model_.layers.size() * static_cast<std::size_t>(model_.experts)),
      lasting_popularity_(popularity_),
      log_share_(model_.layers.size() * stride_, kNoShare),
      slope_(model_.layers.size() * stride_, 0.0F),
      loadings_(model_.layers.size() * stride_ * factors_, 0.0F),
      spread_(model_.layers.size(), 0.0F) {
  model_.validate(model_.name);
  for (int l = 0; l < layers(); ++l) {
    set_popularity(l);
    set_loadings(l);
    calibrate(l);
  }
}

std::span<const double> RoutingLaw::popularity(int l) const {
  return std::span(popularity_).subspan(static_cast<std::size_t>(l) * static_cast<std::size_t>(experts()), experts());
}

std::span<const double> RoutingLaw::lasting_popularity(int l) const {
  return std::span(lasting_popularity_)
      .subspan(static_cast<std::size_t>(l) * static_cast<std::size_t>(experts()), experts());
}

// No expert gets more than every token.
void RoutingLaw::drift_to_window(int l, std::span<double> shares) const {
  RandomStream stream(Seed{model_.window}, "model.drift", static_cast<std::uint64_t>(model_.layers[l].number));
  std::vector<float> moved = mapped(
      shares, [&](double share) { return static_cast<float>(share * std::exp(model_.drift * stream.normal())); });
  scale_capped(moved, model_.top_k);
  std::copy(moved.begin(), moved.end(), shares.begin());
}

// They sum to 1, but for rounding in the file and for what a drift caps.
void RoutingLaw::keep_shares(int l, std::span<const double> shares, std::vector<double>& to) const {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::transform(shares.begin(), shares.end(),
                 to.begin() + static_cast<std::ptrdiff_t>(l) * static_cast<std::ptrdiff_t>(model_.experts),
                 [sum](double share) { return share / sum; });
}

void RoutingLaw::set_popularity(int l) {
  const LayerRouting& layer = model_.layers[l];
  std::vector<double> shares = layer.shares;
  if (shares.empty()) {
    shares = deal_shares(shares_of_curve(layer.curve, model_.experts), model_, layer);
  }
  keep_shares(l, shares, lasting_popularity_);
  if (model_.drift > 0) {
    drift_to_window(l, shares);
  }
  keep_shares(l, shares, popularity_);
  const std::span<const double> kept = popularity(l);
  for (std::size_t e = 0; e < kept.size(); ++e) {
    log_share_[at(l) + e] = kept[e] > 0 ? static_cast<float>(std::log(kept[e])) : kNoShare;
  }
}

// Drawn loadings are directions at random among the drawn factors, of norm 1; fitted ones come from the model. Together
// their mean square norm is 1, times sigma.
void RoutingLaw::set_loadings(int l) {
  const LayerRouting& layer = model_.layers[l];
  const auto fitted = static_cast<std::size_t>(model_.fitted_factors);
  const double fitted_scale = layer.sigma * std::sqrt(model_.fitted_share);
  const double drawn_scale = layer.sigma * std::sqrt(1 - model_.fitted_share);
  RandomStream stream(Seed{model_.pattern_seed}, "model.loadings", static_cast<std::uint64_t>(layer.number));
  std::vector<double> u(factors_);
  double spread = 0;
  for (std::size_t e = 0; e < static_cast<std::size_t>(model_.experts); ++e) {
    double norm = 0;
    for (std::size_t f = fitted; f < factors_; ++f) {
      u[f] = stream.normal();
      norm += u[f] * u[f];
    }
    for (std::size_t f = 0; f < factors_; ++f) {
      u[f] = f < fitted ? fitted_scale * static_cast<double>(layer.loadings[e * fitted + f])
                        : drawn_scale * u[f] / std::sqrt(norm);
      spread += u[f] * u[f];
      loadings_[at(l) * factors_ + (e / kWide * factors_ + f) * kWide + e % kWide] = static_cast<float>(u[f]);
    }
  }
  spread_[l] = static_cast<float>(spread / model_.experts);
}

float RoutingLaw::roots(int l, std::span<const float> z, float variance, std::span<float> out) const {
  return row_roots({.log_share = log_share_.data() + at(l),
                    .slope = slope_.data() + at(l),
                    .loadings = loadings_.data() + at(l) * factors_,
                    .experts = stride_},
                   z, variance, out.data());
}

void RoutingLaw::chances(int l, const Topic& topic, std::span<float> out) const {
  EPSIM_CHECK(out.size() == stride_, "a chance for every expert, and the padding");
  const float scale = static_cast<float>(model_.top_k) / roots(l, topic.z, topic.variance, out);
  FloatX4 most{};
  for (std::size_t e = 0; e < stride_; e += kLanes) {
    FloatX4 x = load_x4(out.data() + e);
    x = x * x * scale;
    most = x > most ? x : most;
    store_x4(out.data() + e, x);
  }
  if (std::max({most[0], most[1], most[2], most[3]}) > 1.0F) {
    scale_capped(out.first(model_.experts), model_.top_k);
  }
}

// Finds the mean correction: e^x has a mean above e^(mean of x), and the scaling to top-k bends it further. Averages
// over the same topics and their opposites every round, so that the correction settles.
void RoutingLaw::calibrate(int l) {
  const double full = 1 + model_.domain_ratio * model_.domain_ratio + model_.stretch_ratio * model_.stretch_ratio;
  const double sigma2 = static_cast<double>(spread_[l]);
  if (sigma2 == 0) {
    return;
  }
  const auto width = static_cast<std::size_t>(model_.experts);
  const std::span<const double> target = popularity(l);
  std::vector<double> mean(width);
  std::vector<float> row(stride_);
  Topic topic{std::vector<float>(factors_), static_cast<float>(full)};
  for (int round = 0; round < kRounds; ++round) {
    std::fill(mean.begin(), mean.end(), 0.0);
    RandomStream stream(Seed{model_.pattern_seed}, "model.calibration", static_cast<std::uint64_t>(l));
    for (int t = 0; t < kTopics; ++t) {
      for (float& z : topic.z) {
        z = t % 2 == 0 ? static_cast<float>(std::sqrt(full) * stream.normal()) : -z;
      }
      chances(l, topic, row);
      for (std::size_t e = 0; e < width; ++e) {
        mean[e] += static_cast<double>(row[e]);
      }
    }
    for (std::size_t e = 0; e < width; ++e) {
      if (target[e] > 0 && mean[e] > 0) {
        const double miss = std::log(target[e] * model_.top_k * kTopics / mean[e]);
        slope_[at(l) + e] += static_cast<float>(miss / full);
      }
    }
  }
}

}  // namespace epsim
