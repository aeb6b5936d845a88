#include "policies/placement/craft/allocation.h"

#include <algorithm>
#include <limits>

#include "sim/core/check.h"

namespace epsim {
namespace {

constexpr double kUnreachable = -std::numeric_limits<double>::infinity();

}  // namespace

CraftKnapsack::CraftKnapsack(const GainTable& table, int max_budget, CraftObjective objective)
    : width_(static_cast<std::size_t>(max_budget) + 1),
      layers_(table.base.size()),
      best_(width_, kUnreachable),
      choice_(layers_ * width_, 0) {
  best_[0] = 0;
  std::vector<double> before;
  for (std::size_t l = 0; l < layers_; ++l) {
    before = best_;
    for (std::size_t k = 0; k < table.counts.size(); ++k) {
      const int count = table.counts[k];
      const double worth = objective == CraftObjective::kGain ? table.gain[k][l] : count * table.gain[k][l];
      for (auto c = static_cast<std::size_t>(count); c < width_; ++c) {
        const double candidate = before[c - static_cast<std::size_t>(count)] + worth;
        if (candidate > best_[c]) {
          best_[c] = candidate;
          choice_[l * width_ + c] = count;
        }
      }
    }
  }
}

bool CraftKnapsack::reachable(int budget) const {
  return budget >= 0 && static_cast<std::size_t>(budget) < width_ &&
         best_[static_cast<std::size_t>(budget)] != kUnreachable;
}

std::vector<int> CraftKnapsack::solve(int budget) const {
  EPSIM_CHECK(reachable(budget), "the budget can be met exactly");
  std::vector<int> out(layers_, 0);
  auto left = static_cast<std::size_t>(budget);
  for (std::size_t l = layers_; l-- > 0;) {
    out[l] = choice_[l * width_ + left];
    left -= static_cast<std::size_t>(out[l]);
  }
  EPSIM_CHECK(left == 0, "the whole budget is spent");
  return out;
}

int CraftKnapsack::best_within(int budget) const {
  const auto end = best_.begin() + std::min(budget, static_cast<int>(width_) - 1) + 1;
  return static_cast<int>(std::max_element(best_.begin(), end) - best_.begin());
}

double mean_gain(const GainTable& table, std::span<const int> layer_copies) {
  double sum = 0;
  for (std::size_t l = 0; l < layer_copies.size(); ++l) {
    const auto at = std::find(table.counts.begin(), table.counts.end(), layer_copies[l]);
    if (at != table.counts.end()) {
      sum += table.gain[static_cast<std::size_t>(at - table.counts.begin())][l];
    }
  }
  return layer_copies.empty() ? 0.0 : sum / static_cast<double>(layer_copies.size());
}

int knee(std::span<const int> x, std::span<const double> gain) {
  EPSIM_CHECK(!x.empty() && x.size() == gain.size(), "a curve has points");
  const double top = *std::max_element(gain.begin(), gain.end());
  int best = x.front();
  double best_height = 0;
  for (std::size_t i = 1; i < x.size() && top > gain.front(); ++i) {
    const double height = (gain[i] - gain.front()) / (top - gain.front()) -
                          static_cast<double>(x[i] - x.front()) / static_cast<double>(x.back() - x.front());
    if (height > best_height) {
      best_height = height;
      best = x[i];
    }
  }
  return best;
}

FactorCurve factor_curve(const GainTable& table, int gpus, CraftObjective objective) {
  const int layers = static_cast<int>(table.base.size());
  const CraftKnapsack knapsack(table, layers * gpus, objective);
  FactorCurve out{.factor = {0}, .gain = {0.0}};
  for (const int factor : powers_of_two_and(layers)) {
    out.factor.push_back(factor);
    out.gain.push_back(mean_gain(table, knapsack.solve(factor * gpus)));
  }
  return out;
}

int choose_factor(const FactorCurve& curve, AutoFactor rule) {
  if (rule == AutoFactor::kKnee) {
    return knee(curve.factor, curve.gain);
  }
  int best = 0;
  double best_ratio = 0;
  for (std::size_t i = 1; i < curve.factor.size(); ++i) {
    const double ratio = curve.gain[i] / curve.factor[i];
    if (ratio > best_ratio) {
      best_ratio = ratio;
      best = curve.factor[i];
    }
  }
  return best;
}

}  // namespace epsim
