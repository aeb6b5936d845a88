#include "traces/expert_loads/window_load_source.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/fingerprint.h"
#include "sim/core/simd.h"
#include "traces/routing_model/byte_gaussian.h"
#include "traces/routing_model/count_draws.h"
#include "traces/routing_model/routing_law.h"

namespace epsim {

namespace {

// Caps a row, some values of which are above 1. A trace of the mean mix is let in first, so that a row in which fewer than
// `total` experts drew anything can still be filled.
void spread_capped(std::span<float> row, const float* mean, double total) {
  for (std::size_t e = 0; e < row.size(); ++e) {
    row[e] = std::max(row[e], 1e-3F * mean[e]);
  }
  cap_row(row, 1.0F, total);
}

constexpr std::size_t kRowsAtOnce = 4;

// A layer's draw, clamped to [0, 1] and not yet scaled.
struct DrawnRow {
  const float *mean, *deviation;
  std::uint64_t key;
  std::span<float> out;
  double total = 0;
  float highest = 0;
};

template <std::size_t kRows>
EPSIM_INLINE void draw_kernel(DrawnRow* rows, float inverse_root_tokens) {
  using Float = typename RowLanes<kRows>::Float;
  std::uint64_t keys[kRows];
  const float *mean[kRows], *deviation[kRows];
  float* out[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    keys[r] = rows[r].key;
    mean[r] = rows[r].mean;
    deviation[r] = rows[r].deviation;
    out[r] = rows[r].out.data();
  }
  ByteGaussians<kRows> gaussian(keys);
  const Float zero{}, one = zero + 1.0F;
  Float sums{}, highest{}, x, step, drawn;
  const std::size_t experts = rows[0].out.size();
  for (std::size_t at = 0; at < experts; at += kLanes) {
    load_rows(x, mean, at);
    load_rows(step, deviation, at);
    gaussian.next(drawn);
    x += step * (drawn * inverse_root_tokens);
    x = x > zero ? x : zero;
    x = x < one ? x : one;
    sums += x;
    highest = x > highest ? x : highest;
    if (at + kLanes <= experts) {
      store_rows(x, out, at);
    } else {  // the last block sticks out of the row; its padding is 0
      for (std::size_t r = 0; r < kRows; ++r) {
        for (std::size_t i = 0; at + i < experts; ++i) {
          out[r][at + i] = x[r * kLanes + i];
        }
      }
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::size_t i = r * kLanes;
    rows[r].total = static_cast<double>(sums[i]) + sums[i + 1] + sums[i + 2] + sums[i + 3];
    rows[r].highest = std::max({highest[i], highest[i + 1], highest[i + 2], highest[i + 3]});
  }
}

EPSIM_SIMD void draw_rows(std::span<DrawnRow> rows, float inverse_root_tokens) {
  std::size_t r = 0;
  for (; r + 2 <= rows.size(); r += 2) {
    draw_kernel<2>(rows.data() + r, inverse_root_tokens);
  }
  for (; r < rows.size(); ++r) {
    draw_kernel<1>(rows.data() + r, inverse_root_tokens);
  }
}

void scale_to(const DrawnRow& row, float top_k) {
  if (!(row.total > 0)) {  // so few tokens that every count came out as 0
    std::copy_n(row.mean, row.out.size(), row.out.begin());
    return;
  }
  const auto scale = static_cast<float>(static_cast<double>(top_k) / row.total);
  for (float& x : row.out) {
    x *= scale;
  }
  if (row.highest * scale > 1.0F) {
    spread_capped(row.out, row.mean, static_cast<double>(top_k));
  }
}

}  // namespace

WindowLoadSource::WindowLoadSource(const LoadWindow& window, int top_k, double overdispersion, Seed seed)
    : layers_(window.layers()),
      experts_(window.experts()),
      stride_((static_cast<std::size_t>(window.experts()) + kCountLanes - 1) / kCountLanes * kCountLanes),
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

void WindowLoadSource::draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const {
  out.resize(layers_, 1, experts_);
  out.counted = counted();
  const std::int64_t total = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  const auto rows = static_cast<double>(total);
  if (const int trials = count_trials(rows, overdispersion_, static_cast<int>(top_k_), experts_); trials > 0) {
    draw_few(at.number, trials, out);
    return;
  }
  if (overdispersion_ > 0 && total > 0) {
    draw_around(at.number, static_cast<float>(1.0 / std::sqrt(rows)), out);
    return;
  }
  for (int l = 0; l < layers_; ++l) {
    std::copy_n(mean_of(l), experts_, out.row(l, 0).begin());
  }
}

std::uint64_t WindowLoadSource::row_key(std::int64_t step, int layer) const {
  const std::uint64_t first = static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(layers_);
  return Fingerprint::mix(key_ ^ Fingerprint::mix(first + static_cast<std::uint64_t>(layer) + 1));
}

void WindowLoadSource::draw_few(std::int64_t step, int trials, StepLoads& out) const {
  std::vector<float> counts(stride_);
  for (int l = 0; l < layers_; ++l) {
    draw_choices({mean_of(l), stride_}, trials, static_cast<int>(top_k_), row_key(step, l), counts);
    std::transform(counts.begin(), counts.begin() + experts_, out.row(l, 0).begin(),
                   [&](float n) { return n / static_cast<float>(trials); });
  }
}

void WindowLoadSource::draw_around(std::int64_t step, float inverse_root_tokens, StepLoads& out) const {
  std::array<DrawnRow, kRowsAtOnce> rows;
  for (int first = 0; first < layers_; first += static_cast<int>(kRowsAtOnce)) {
    const std::size_t count = std::min(kRowsAtOnce, static_cast<std::size_t>(layers_ - first));
    for (std::size_t r = 0; r < count; ++r) {
      const int l = first + static_cast<int>(r);
      rows[r] = {.mean = mean_of(l),
                 .deviation = deviation_.data() + static_cast<std::size_t>(l) * stride_,
                 .key = row_key(step, l),
                 .out = out.row(l, 0)};
    }
    draw_rows(std::span(rows).first(count), inverse_root_tokens);
    for (std::size_t r = 0; r < count; ++r) {
      scale_to(rows[r], top_k_);
    }
  }
}

}  // namespace epsim
