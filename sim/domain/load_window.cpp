#include "sim/domain/load_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/sum_and_max.h"
#include "sim/domain/affinity.h"

namespace epsim {

LoadWindow::LoadWindow(int layers, int experts)
    : layers_(layers), experts_(experts), sum_(static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts)) {}

double LoadWindow::total(int l) const {
  const std::span<const double> row = layer(l);
  return std::accumulate(row.begin(), row.end(), 0.0);
}

void LoadWindow::reserve_batches(int count) {
  EPSIM_CHECK(batches_ == 0, "batches are reserved before the first is added");
  capacity_ = count;
  by_batch_.assign(sum_.size() * static_cast<std::size_t>(count), 0.0F);
}

void LoadWindow::add_batch(std::span<const float> counts) { add_batches(counts, 1); }

void LoadWindow::add_batches(std::span<const float> counts, int n) {
  const std::size_t cells = sum_.size();
  EPSIM_CHECK(n >= 0 && counts.size() == cells * static_cast<std::size_t>(n),
              "a batch has one count per layer and expert");
  EPSIM_CHECK(batches_ + n <= capacity_, "reserve_batches() comes first");
  for (std::size_t i = 0; i < cells; ++i) {
    float* to = by_batch_.data() + i * static_cast<std::size_t>(capacity_) + static_cast<std::size_t>(batches_);
    for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
      to[k] = counts[k * cells + i];
      sum_[i] += static_cast<double>(to[k]);
    }
  }
  batches_ += n;
}

std::span<const float> LoadWindow::batches_of(int l, int e) const {
  const std::size_t row = static_cast<std::size_t>(l) * size() + static_cast<std::size_t>(e);
  return {by_batch_.data() + row * static_cast<std::size_t>(capacity_), static_cast<std::size_t>(batches_)};
}

void LoadWindow::set_affinity(std::shared_ptr<const Affinity> affinity) {
  EPSIM_CHECK(affinity == nullptr || (affinity->layers() == layers_ && affinity->experts() == experts_),
              "affinity and loads are of one model");
  affinity_ = std::move(affinity);
}

const TokenSample* LoadWindow::tokens() const {
  return affinity_ != nullptr && affinity_->tokens().tokens() > 0 ? &affinity_->tokens() : nullptr;
}

double balancedness(std::span<const double> loads) {
  const auto [sum, max] = sum_and_max(loads);
  return max > 0 ? sum / static_cast<double>(loads.size()) / max : 1.0;
}

}  // namespace epsim
