#include "sim/domain/load_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"
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

void LoadWindow::add_batch(std::span<const float> counts) {
  EPSIM_CHECK(counts.size() == sum_.size(), "a batch has one count per layer and expert");
  EPSIM_CHECK(batches_ < capacity_, "reserve_batches() comes first");
  for (std::size_t i = 0; i < counts.size(); ++i) {
    by_batch_[i * static_cast<std::size_t>(capacity_) + static_cast<std::size_t>(batches_)] = counts[i];
    sum_[i] += static_cast<double>(counts[i]);
  }
  ++batches_;
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

void LoadWindow::validate(const std::string& where) const {
  for (int l = 0; l < layers_; ++l) {
    const std::span<const double> row = layer(l);
    const auto bad = std::find_if(row.begin(), row.end(), [](double x) { return !(std::isfinite(x) && x >= 0); });
    if (bad != row.end()) {
      throw InputError({where, 0, ""}, fmt::format("MoE layer {}, expert {}: the load {} is not a finite number >= 0.",
                                                   l, bad - row.begin(), *bad));
    }
  }
}

double balancedness(std::span<const double> loads) {
  double sum = 0, max = 0;
  for (const double x : loads) {
    sum += x;
    max = std::max(max, x);
  }
  return max > 0 ? sum / static_cast<double>(loads.size()) / max : 1.0;
}

}  // namespace epsim
