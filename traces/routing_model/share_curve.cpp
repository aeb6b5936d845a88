// Popularity in compact form: a sorted curve, and how its experts lie on contiguous GPUs.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/rng.h"
#include "traces/routing_model/routing_model.h"

namespace epsim {

namespace {

constexpr int kExchanges = 4000;
constexpr double kCloseEnough = 1e-4;  // sum of squared logarithms: 1 % at one size
// Experts trade places with those whose rank is at most so much further down, so that models of one pattern seed, as
// those of one model's phases, keep their hot experts in common.
constexpr double kNearRanks = 0.35;

// Balancedness of one arrangement at several sizes, kept up to date while experts trade places.
class Arrangement {
 public:
  Arrangement(std::vector<double> shares, const std::vector<double>& targets)
      : shares_(std::move(shares)), targets_(targets) {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const std::size_t gpus = static_cast<std::size_t>(kBalancedGpus[i]);
      const std::size_t width = shares_.size() % gpus == 0 ? shares_.size() / gpus : 0;  // 0: not an even split
      width_.push_back(width);
      sums_.emplace_back(width == 0 ? 0 : gpus);
      for (std::size_t e = 0; width > 0 && e < shares_.size(); ++e) {
        sums_[i][e / width] += shares_[e];
      }
    }
  }
  void exchange(std::size_t a, std::size_t b) {
    const double gain = shares_[b] - shares_[a];
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (width_[i] > 0) {
        sums_[i][a / width_[i]] += gain;
        sums_[i][b / width_[i]] -= gain;
      }
    }
    std::swap(shares_[a], shares_[b]);
  }
  double distance() const {
    double sum = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (width_[i] > 0) {
        const double hottest = *std::max_element(sums_[i].begin(), sums_[i].end());
        const double off = std::log(1.0 / (hottest * static_cast<double>(sums_[i].size())) / targets_[i]);
        sum += off * off;
      }
    }
    return sum;
  }
  std::vector<double> shares() && { return std::move(shares_); }

 private:
  std::vector<double> shares_;
  const std::vector<double>& targets_;
  std::vector<std::size_t> width_;
  std::vector<std::vector<double>> sums_;
};

std::vector<double> dealt_by_group(const std::vector<double>& sorted, const RoutingModel& model, int layer_number) {
  RandomStream stream(Seed{model.pattern_seed}, "model.groups", static_cast<std::uint64_t>(layer_number));
  const double alike = std::sqrt(model.group_correlation), own = std::sqrt(1 - model.group_correlation);
  const std::size_t group_size = sorted.size() / static_cast<std::size_t>(model.expert_groups);
  std::vector<double> heat(sorted.size());
  double group = 0;
  for (std::size_t e = 0; e < heat.size(); ++e) {
    group = e % group_size == 0 ? stream.normal() : group;
    heat[e] = alike * group + own * stream.normal();
  }
  std::vector<std::size_t> hottest_first(heat.size());
  std::iota(hottest_first.begin(), hottest_first.end(), std::size_t{0});
  std::sort(hottest_first.begin(), hottest_first.end(),
            [&](std::size_t a, std::size_t b) { return heat[a] > heat[b]; });
  std::vector<double> out(heat.size());
  for (std::size_t rank = 0; rank < out.size(); ++rank) {
    out[hottest_first[rank]] = sorted[rank];
  }
  return out;
}

}  // namespace

std::vector<int> curve_ranks(int experts, bool cold) {
  std::vector<int> ranks;
  for (int r = 1; r < experts; r *= 2) {
    ranks.push_back(r);
  }
  if (cold) {
    ranks.insert(ranks.end(), {experts * 3 / 4, experts * 15 / 16});
  }
  ranks.push_back(experts);
  return ranks;
}

std::vector<double> shares_of_curve(const std::vector<double>& curve, int experts) {
  const std::vector<int> ranks = curve_ranks(experts, curve.size() > curve_ranks(experts).size());
  EPSIM_CHECK(curve.size() == ranks.size(), "a curve has one load per rank");
  std::vector<double> loads(experts, curve[0]);
  for (std::size_t i = 0; i + 1 < ranks.size(); ++i) {
    // A cold expert may have no load at all; its logarithm stops at a millionth of the mean.
    const double low = std::log(std::max(curve[i + 1], 1e-6)), high = std::log(std::max(curve[i], 1e-6));
    const double span = std::log(static_cast<double>(ranks[i + 1]) / ranks[i]);
    for (int r = ranks[i]; r <= ranks[i + 1]; ++r) {
      const double along = std::log(static_cast<double>(r) / ranks[i]) / span;
      loads[static_cast<std::size_t>(r) - 1] = std::exp(high + (low - high) * along);
    }
  }
  const std::size_t fixed = std::min<std::size_t>(2, loads.size() - 1);
  const double kept = std::accumulate(loads.begin(), loads.begin() + fixed, 0.0);
  const double rest = std::accumulate(loads.begin() + fixed, loads.end(), 0.0);
  const double scale = (experts - kept) / rest;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    loads[i] *= (i < fixed ? 1.0 : scale) / experts;
  }
  return loads;
}

std::vector<double> deal_shares(const std::vector<double>& sorted, const RoutingModel& model,
                                const LayerRouting& layer) {
  if (layer.balanced.empty() && model.group_correlation > 0) {
    return dealt_by_group(sorted, model, layer.number);
  }
  RandomStream stream(Seed{model.pattern_seed}, "model.arrangement", static_cast<std::uint64_t>(layer.number));
  std::vector<std::size_t> expert_of(sorted.size());  // [rank]
  std::iota(expert_of.begin(), expert_of.end(), std::size_t{0});
  stream.shuffle(expert_of);
  std::vector<double> shares(sorted.size());
  for (std::size_t rank = 0; rank < sorted.size(); ++rank) {
    shares[expert_of[rank]] = sorted[rank];
  }
  if (layer.balanced.empty()) {
    return shares;
  }
  Arrangement arrangement(std::move(shares), layer.balanced);
  double best = arrangement.distance();
  for (int i = 0; i < kExchanges && best > kCloseEnough; ++i) {
    const std::size_t rank = stream.below(sorted.size() - 1);
    const std::size_t apart =
        1 + stream.below(1 + static_cast<std::size_t>(kNearRanks * static_cast<double>(rank + 1)));
    std::size_t &one = expert_of[rank], &other = expert_of[std::min(rank + apart, sorted.size() - 1)];
    arrangement.exchange(one, other);
    const double now = arrangement.distance();
    if (now <= best) {
      best = now;
      std::swap(one, other);
    } else {
      arrangement.exchange(one, other);
    }
  }
  return std::move(arrangement).shares();
}

}  // namespace epsim
