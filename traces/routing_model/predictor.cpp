#include "traces/routing_model/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {

namespace {

constexpr int kTries = 64;  // draws for a miss until its expert is not in the choice already

std::vector<double> shares_of(std::span<const double> loads) {
  const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
  std::vector<double> shares(loads.begin(), loads.end());
  for (double& s : shares) {
    s = total > 0 ? s / total : 1.0 / static_cast<double>(shares.size());
  }
  return shares;
}

// The popularity of the predictions.
std::vector<double> distorted(const std::vector<double>& truth, const PredictorSpec& spec, int layer, Seed seed) {
  std::vector<double> p = truth;
  if (spec.stale > 0) {
    const std::vector<double> old = shares_of(spec.stale_loads.layer(layer));
    std::transform(p.begin(), p.end(), old.begin(), p.begin(),
                   [&](double now, double then) { return (1 - spec.stale) * now + spec.stale * then; });
  }
  RandomStream random(seed, "predictor.popularity", static_cast<std::uint64_t>(layer));
  for (double& x : p) {
    x *= std::exp(spec.sigma * random.normal());
  }
  return shares_of(p);
}

void check_spec(const LoadWindow& truth, const PredictorSpec& spec) {
  const auto require = [](bool holds, const char* key, const std::string& problem) {
    if (!holds) {
      throw InputError({"", 0, key}, problem);
    }
  };
  const auto layers = static_cast<std::size_t>(truth.layers());
  require(spec.hit_rate.size() == 1 || spec.hit_rate.size() == layers, "hit_rate",
          fmt::format("state one for all layers, or one for each of the {}.", layers));
  require(std::all_of(spec.hit_rate.begin(), spec.hit_rate.end(), [](double h) { return h >= 0 && h <= 1; }),
          "hit_rate", "this is a chance, from 0 to 1.");
  require(spec.sigma >= 0 && spec.sigma <= 4, "sigma", "allowed are 0 to 4 (a factor of 55 either way).");
  require(spec.stale >= 0 && spec.stale <= 1, "stale", "this is a share, from 0 to 1.");
  require(
      spec.stale == 0 || (spec.stale_loads.layers() == truth.layers() && spec.stale_loads.experts() == truth.experts()),
      "stale", "an older window of the same layers and experts is needed.");
}

}  // namespace

TracePredictor::TracePredictor(const LoadWindow& truth, int top_k, const PredictorSpec& spec, Seed seed)
    : top_k_(top_k), seed_(seed) {
  check_spec(truth, spec);
  for (int l = 0; l < truth.layers(); ++l) {
    const std::vector<double> p = shares_of(truth.layer(l)), q = distorted(p, spec, l, seed);
    double common = 0;
    for (std::size_t e = 0; e < p.size(); ++e) {
      common += std::min(p[e], q[e]);
    }
    const double hit = spec.hit_rate[spec.hit_rate.size() == 1 ? 0 : static_cast<std::size_t>(l)];
    if (hit > common + 1e-9) {
      throw InputError({"", 0, "hit_rate"},
                       fmt::format("layer {}: predictions of so distorted a popularity hit at most {:.4f} of the time, "
                                   "not {:g}.",
                                   l, common, hit));
    }
    Layer layer;
    std::vector<float> rest(p.size());
    for (std::size_t e = 0; e < p.size(); ++e) {
      const double keep = p[e] > 0 ? std::min(1.0, hit / common * std::min(1.0, q[e] / p[e])) : 0.0;
      layer.keep.push_back(static_cast<float>(keep));
      rest[e] = static_cast<float>(std::max(0.0, q[e] - p[e] * keep));
    }
    layer.can_miss = std::accumulate(rest.begin(), rest.end(), 0.0) > 1e-6;
    if (layer.can_miss) {
      layer.misses.build(rest);
    }
    layers_.push_back(std::move(layer));
  }
}

void TracePredictor::predict_choice(const Layer& layer, RandomStream& random, std::span<const std::uint16_t> truth,
                                    std::span<std::uint16_t> out) const {
  std::copy(truth.begin(), truth.end(), out.begin());
  for (std::size_t k = 0; k < truth.size(); ++k) {
    if (!layer.can_miss || random.uniform() < static_cast<double>(layer.keep[truth[k]])) {
      continue;
    }
    // Neither an expert already predicted, nor a true one (which its own slot may still predict).
    for (int i = 0; i < kTries; ++i) {
      const std::uint16_t drawn = layer.misses.draw(random.bits());
      const auto same = [&](std::uint16_t e) { return e == drawn; };
      if (std::none_of(truth.begin(), truth.end(), same) &&
          std::none_of(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(k), same)) {
        out[k] = drawn;
        break;
      }
    }
  }
}

void TracePredictor::predict(std::int64_t first_token, std::span<const std::uint16_t> truth,
                             std::span<std::uint16_t> out) const {
  const auto k = static_cast<std::size_t>(top_k_);
  EPSIM_CHECK(truth.size() == out.size() && truth.size() % (layers_.size() * k) == 0, "ids are [token][layer][k]");
  for (std::size_t at = 0; at < truth.size(); at += layers_.size() * k) {
    const auto number = static_cast<std::uint64_t>(first_token) + at / (layers_.size() * k);
    RandomStream random(seed_, "predictor.token", number);
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      predict_choice(layers_[l], random, truth.subspan(at + l * k, k), out.subspan(at + l * k, k));
    }
  }
}

}  // namespace epsim
