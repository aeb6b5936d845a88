#include "traces/routing/window_load_source.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/fingerprint.h"
#include "traces/routing/byte_gaussian.h"

namespace epsim {

namespace {

// Scales a row, some values of which are above 1, so that it sums to `total` with no value above 1: what the capped
// experts cannot take goes to the others in proportion. A trace of the mean mix is let in first, so that a row in which
// fewer than `total` experts drew anything can still be filled.
void spread_capped(std::span<float> row, const float* mean, double total) {
  for (std::size_t e = 0; e < row.size(); ++e) {
    row[e] = std::max(row[e], 1e-3F * mean[e]);
  }
  for (std::size_t round = 0; round < row.size(); ++round) {
    double capped = 0, rest = 0;
    for (const float x : row) {
      (x >= 1.0F ? capped : rest) += x >= 1.0F ? 1.0 : static_cast<double>(x);
    }
    const double scale = rest > 0 ? (total - capped) / rest : 1.0;
    bool again = false;
    for (float& x : row) {
      x = x >= 1.0F ? 1.0F : static_cast<float>(x * scale);
      again = again || x > 1.0F;
    }
    if (!again) {
      return;
    }
  }
}

}  // namespace

WindowLoadSource::WindowLoadSource(const LoadWindow& window, int top_k, double overdispersion, Seed seed)
    : layers_(window.layers()),
      experts_(window.experts()),
      stride_((static_cast<std::size_t>(window.experts()) + kLanes - 1) / kLanes * kLanes),
      top_k_(static_cast<float>(top_k)),
      overdispersion_(overdispersion),
      key_(RandomStream(seed, "routing.counts").bits()),
      mean_(static_cast<std::size_t>(layers_) * stride_),
      deviation_(mean_.size()) {
  for (int l = 0; l < layers_; ++l) {
    const double total = window.total(l);
    EPSIM_CHECK(total > 0, "a layer of the window has no load");
    for (std::size_t e = 0; e < window.layer(l).size(); ++e) {
      const double chance = window.layer(l)[e] * top_k / total;
      EPSIM_CHECK(chance <= 1 + 1e-5, "an expert takes more than one assignment per token");
      const double pi = std::min(chance, 1.0);
      const std::size_t at = static_cast<std::size_t>(l) * stride_ + e;
      mean_[at] = static_cast<float>(pi);
      deviation_[at] = static_cast<float>(std::sqrt(pi * (1 - pi) * overdispersion) / ByteGaussian::kDeviation);
    }
  }
}

void WindowLoadSource::draw(std::int64_t step, std::span<const std::int64_t> tokens, StepLoads& out) const {
  out.resize(layers_, 1, experts_);
  const std::int64_t total = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  const bool varies = overdispersion_ > 0 && total > 0;
  const float inverse_root = varies ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(total))) : 0.0F;
  for (int l = 0; l < layers_; ++l) {
    if (varies) {
      draw_row(step, l, inverse_root, out.row(l, 0));
    } else {
      const float* mean = mean_.data() + static_cast<std::size_t>(l) * stride_;
      std::copy(mean, mean + experts_, out.row(l, 0).begin());
    }
  }
}

void WindowLoadSource::draw_row(std::int64_t step, int layer, float inverse_root_tokens, std::span<float> out) const {
  const float* mean = mean_.data() + static_cast<std::size_t>(layer) * stride_;
  const float* deviation = deviation_.data() + static_cast<std::size_t>(layer) * stride_;
  const std::uint64_t row =
      static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(layers_) + static_cast<std::uint64_t>(layer);
  ByteGaussian gaussian(Fingerprint::mix(key_ ^ Fingerprint::mix(row + 1)));
  const FloatX4 zero{}, one = zero + 1.0F;
  FloatX4 sums{}, highest{};
  const std::size_t whole = out.size() / kLanes * kLanes;
  for (std::size_t at = 0; at < stride_; at += kLanes) {
    FloatX4 x = load_x4(mean + at) + load_x4(deviation + at) * (gaussian.next() * inverse_root_tokens);
    x = x > zero ? x : zero;
    x = x < one ? x : one;
    sums += x;
    highest = x > highest ? x : highest;
    if (at < whole) {
      store_x4(out.data() + at, x);
    } else {  // the last block sticks out of the row; its padding is 0
      std::memcpy(out.data() + at, &x, (out.size() - at) * sizeof(float));
    }
  }
  const double total = static_cast<double>(sums[0]) + sums[1] + sums[2] + sums[3];
  if (!(total > 0)) {  // so few tokens that every count came out as 0
    std::copy_n(mean, experts_, out.begin());
    return;
  }
  const float scale = static_cast<float>(static_cast<double>(top_k_) / total);
  for (float& x : out) {
    x *= scale;
  }
  if (std::max({highest[0], highest[1], highest[2], highest[3]}) * scale > 1.0F) {
    spread_capped(out, mean, static_cast<double>(top_k_));
  }
}

}  // namespace epsim
