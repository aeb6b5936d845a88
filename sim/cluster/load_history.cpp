#include "sim/cluster/load_history.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "sim/core/check.h"

namespace epsim {

LoadHistory::LoadHistory(int layers, int experts, std::int64_t steps)
    : layers_(layers), experts_(experts), capacity_(static_cast<std::size_t>(steps)) {
  EPSIM_CHECK(steps > 0, "a window has steps");
}

void LoadHistory::add(const StepLoads& loads, std::span<const std::int64_t> tokens, double balancedness) {
  if (rows_.size() < capacity_) {
    rows_.emplace_back(static_cast<std::size_t>(layers_) * static_cast<std::size_t>(experts_));
    balancedness_.push_back(0);
    next_ = rows_.size() - 1;
  }
  const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
  std::vector<float>& row = rows_[next_];
  std::fill(row.begin(), row.end(), 0.0F);
  for (int l = 0; l < layers_; ++l) {
    float* out = row.data() + static_cast<std::ptrdiff_t>(l) * experts_;
    for (int s = 0; s < loads.sources; ++s) {
      const auto weight = static_cast<float>(loads.sources == 1 ? all : tokens[static_cast<std::size_t>(s)]);
      const std::span<const float> pi = loads.row(l, s);
      for (std::size_t e = 0; e < pi.size(); ++e) {
        out[e] += weight * pi[e];
      }
    }
  }
  balancedness_[next_] = balancedness;
  next_ = (next_ + 1) % capacity_;
}

LoadWindow LoadHistory::window(bool by_steps) const {
  LoadWindow out(layers_, experts_);
  if (by_steps) {
    constexpr std::size_t kTogether = 16;  // LoadWindow::add_batches
    out.reserve_batches(static_cast<int>(rows_.size()));
    std::vector<float> counts;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::ranges::transform(rows_[(next_ + i) % rows_.size()], std::back_inserter(counts),
                             [](float count) { return std::round(count); });
      if ((i + 1) % kTogether == 0 || i + 1 == rows_.size()) {
        out.add_batches(counts, static_cast<int>(i % kTogether + 1));
        counts.clear();
      }
    }
    return out;
  }
  for (const std::vector<float>& row : rows_) {
    for (int l = 0; l < layers_; ++l) {
      const float* from = row.data() + static_cast<std::ptrdiff_t>(l) * experts_;
      const std::span<double> to = out.layer(l);
      std::transform(to.begin(), to.end(), from, to.begin(),
                     [](double sum, float more) { return sum + static_cast<double>(more); });
    }
  }
  for (int l = 0; l < layers_; ++l) {
    for (double& count : out.layer(l)) {
      count = std::round(count);
    }
  }
  return out;
}

double LoadHistory::balancedness(std::int64_t steps) const {
  const std::size_t count = std::min(static_cast<std::size_t>(steps), rows_.size());
  EPSIM_CHECK(count > 0, "a step has run");
  double sum = 0;
  for (std::size_t i = 1; i <= count; ++i) {
    sum += balancedness_[(next_ + rows_.size() - i) % rows_.size()];
  }
  return sum / static_cast<double>(count);
}

}  // namespace epsim
