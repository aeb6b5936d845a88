#include "models/network/joint_use.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "models/network/miss_probability.h"

namespace epsim {
namespace {

constexpr double kMostChance = 1 - 1e-6;

void index_by_expert(CopySets& out, std::size_t experts) {
  std::vector<std::vector<std::pair<std::size_t, double>>> found(experts);
  for (std::size_t s = 0; s < out.size(); ++s) {
    for (const NodeShares::Entry& copy : out.of(s)) {
      auto& list = found[static_cast<std::size_t>(copy.expert)];
      if (list.empty() || list.back().first != s) {
        list.emplace_back(s, 0.0);
      }
      list.back().second += static_cast<double>(copy.share);
    }
  }
  out.first_of.assign(1, 0);
  for (const auto& list : found) {
    for (const auto& [set, share] : list) {
      out.sets.push_back(set);
      out.shares.push_back(std::min(share, 1.0));
    }
    out.first_of.push_back(out.sets.size());
  }
}

// [expert] The chance that a token of the sample uses it.
std::vector<float> chances_of(const TokenSample& tokens, std::size_t experts, int l) {
  std::vector<float> pi(experts, 0.0F);
  for (std::size_t t = 0; t < tokens.tokens(); ++t) {
    for (const std::uint16_t e : tokens.at(t, l)) {
      pi[e] += 1.0F;
    }
  }
  for (float& p : pi) {
    p /= static_cast<float>(tokens.tokens());
  }
  return pi;
}

// The same by loads.
std::vector<float> chances_of(std::span<const double> loads, int top_k) {
  const double all = std::accumulate(loads.begin(), loads.end(), 0.0);
  std::vector<float> pi;
  for (const double load : loads) {
    pi.push_back(static_cast<float>(std::min(kMostChance, all > 0 ? load * top_k / all : 0.0)));
  }
  return pi;
}

// [set] The chance that a token needs none, with independent experts.
std::vector<double> independent_misses(const CopySets& sets, std::span<const float> pi) {
  const double weight = pair_weight(pi);
  std::vector<double> out;
  for (std::size_t s = 0; s < sets.size(); ++s) {
    MissProbability missed;
    for (const NodeShares::Entry& copy : sets.of(s)) {
      missed.add(static_cast<double>(pi[static_cast<std::size_t>(copy.expert)]), static_cast<double>(copy.share));
    }
    out.push_back(missed.value(weight));
  }
  return out;
}

// Groups of consecutive experts, some of which a token opens.
class OpenGroups {
 public:
  OpenGroups(std::span<const float> pi, int groups, int opened)
      : pi_(pi), size_(pi.size() / static_cast<std::size_t>(groups)), opened_(static_cast<std::size_t>(opened)) {
    std::vector<double> loads, least;  // a group is open at least as often as its hottest expert is used
    for (std::size_t first = 0; first < pi.size(); first += size_) {
      const std::span<const float> group = pi.subspan(first, size_);
      loads.push_back(std::accumulate(group.begin(), group.end(), 0.0));
      least.push_back(std::max(kLeastOpen, static_cast<double>(*std::max_element(group.begin(), group.end()))));
    }
    chance_ = spread(loads, least);
    fit_odds();
    double variance = 0;
    for (std::size_t e = 0; e < pi.size(); ++e) {
      const double used = in_group(e);
      variance += chance_[e / size_] * used * (1 - used);
    }
    weight_ = variance > 0 ? 0.5 / variance : 0.0;
    all_ways_ = ways({odds_, std::vector<double>(odds_.size(), 0.0)}, 0, opened_, 1, 0, 0);
  }

  // The chance that a token needs none of the copies.
  double miss(std::span<const NodeShares::Entry> copies) const {
    std::vector<MissProbability> by_group(odds_.size());
    for (const NodeShares::Entry& copy : copies) {
      const auto e = static_cast<std::size_t>(copy.expert);
      by_group[e / size_].add(in_group(e), static_cast<double>(copy.share));
    }
    Set set{odds_, {}};
    for (std::size_t g = 0; g < odds_.size(); ++g) {
      set.missed[g] *= by_group[g].value(weight_);
      set.sums.push_back(by_group[g].sum());
    }
    return ways(set, 0, opened_, 1, 0, 0) / all_ways_;
  }

 private:
  static constexpr double kLeastOpen = 1e-6, kLeastOdds = 1e-9;

  // Chances in proportion to loads that sum to the groups opened, within bounds.
  std::vector<double> spread(const std::vector<double>& loads, const std::vector<double>& least) const {
    std::vector<double> out(loads.size(), 0.0);
    double room = static_cast<double>(opened_), left = std::accumulate(loads.begin(), loads.end(), 0.0);
    if (left <= 0) {
      return std::vector<double>(loads.size(), room / static_cast<double>(loads.size()));
    }
    for (bool bound = true; bound;) {
      bound = false;
      const double per_load = left > 0 ? room / left : 0.0;
      for (std::size_t g = 0; g < loads.size(); ++g) {
        const double wanted = loads[g] * per_load;
        if (out[g] == 0 && (wanted < least[g] || wanted > kMostChance)) {
          out[g] = std::clamp(wanted, least[g], kMostChance);
          room -= out[g];
          left -= loads[g];
          bound = true;
        }
      }
      for (std::size_t g = 0; !bound && g < loads.size(); ++g) {
        out[g] = out[g] == 0 ? loads[g] * per_load : out[g];
      }
    }
    return out;
  }

  // Odds under which each group is open as often as it should be.
  void fit_odds() {
    constexpr int kRounds = 50;
    odds_.assign(chance_.size(), 1.0);
    for (int round = 0; round < kRounds; ++round) {
      const double all = choices(odds_.size(), opened_);
      std::vector<double> next;
      for (std::size_t g = 0; g < odds_.size(); ++g) {
        const double open = std::clamp(odds_[g] * choices(g, opened_ - 1) / all, kLeastOpen, kMostChance);
        next.push_back(odds_[g] * chance_[g] / (1 - chance_[g]) * (1 - open) / open);
      }
      // Only their ratios count. Where fewer groups than are opened have any load, the others' odds would fall to 0.
      const double most = *std::max_element(next.begin(), next.end());
      for (std::size_t g = 0; g < odds_.size(); ++g) {
        odds_[g] = std::max(next[g] / most, kLeastOdds);
      }
    }
  }
  // Sum over the choices of so many groups, without one of them, of their odds' product.
  double choices(std::size_t without, std::size_t opened) const {
    std::vector<double> sums(opened + 1, 0.0);
    sums[0] = 1;
    for (std::size_t g = 0; g < odds_.size(); ++g) {
      for (std::size_t n = opened; n > 0 && g != without; --n) {
        sums[n] += sums[n - 1] * odds_[g];
      }
    }
    return sums[opened];
  }

  // The chance that a token uses the expert whose group it has opened.
  double in_group(std::size_t e) const {
    return std::min(kMostChance, static_cast<double>(pi_[e]) / chance_[e / size_]);
  }
  // [group] Odds to be open and missed, and MissProbability::sum() of the set's copies.
  struct Set {
    std::vector<double> missed, sums;
  };
  // Over all choices of `left` groups from `first` on, the sum of their products with `product`, less what pairs of experts
  // of two groups exclude each other; `sum` and `squares` are those of the groups chosen before.
  double ways(const Set& set, std::size_t first, std::size_t left, double product, double sum, double squares) const {
    if (left == 0) {
      return product * std::exp(-(sum * sum - squares) * weight_);
    }
    double out = 0;
    for (std::size_t g = first; g + left <= odds_.size(); ++g) {
      const double s = set.sums[g];
      out += ways(set, g + 1, left - 1, product * set.missed[g], sum + s, squares + s * s);
    }
    return out;
  }

  std::span<const float> pi_;
  std::size_t size_, opened_;
  std::vector<double> chance_, odds_;  // [group] to be open
  double weight_ = 0, all_ways_ = 1;
};

// c of chances to miss a set, where they are told from 0 and 1.
double exponent(double missed, double alone, double least) {
  const bool told = 1.0 - alone > least && alone > MissProbability::kLeast;
  return told ? std::log(std::clamp(missed, least, 1.0 - least)) / std::log(alone) : 1.0;
}

}  // namespace

CopySets copy_sets(const LayerPlacement& layer, const SourceLanes& lanes, const NodeShares* nodes) {
  CopySets out;
  for (int i = 0; i < lanes.lanes(); ++i) {
    const std::span<const float> shares = shares_of(layer, lanes.choice[i]);
    for (int s = layer.first_slot[lanes.gpu[i]]; s < layer.first_slot[lanes.gpu[i] + 1]; ++s) {
      out.copies.push_back({layer.expert[s], shares[s]});
    }
    out.first.push_back(out.copies.size());
  }
  for (std::size_t n = 0; nodes != nullptr && n < nodes->lists(); ++n) {
    const auto list = nodes->list(n);
    out.copies.insert(out.copies.end(), list.begin(), list.end());
    out.first.push_back(out.copies.size());
  }
  index_by_expert(out, layer.copies.size());
  return out;
}

void TokenCount::count(const CopySets& sets, std::span<const std::uint16_t> experts, int layers, int top_k, int l,
                       std::span<double> hits) {
  const auto k = static_cast<std::size_t>(top_k), token_ids = k * static_cast<std::size_t>(layers);
  missed_.assign(sets.size(), 1.0);
  hits_.assign(sets.size(), 0.0);
  for (std::size_t at = static_cast<std::size_t>(l) * k; at < experts.size(); at += token_ids) {
    seen_.clear();
    for (const std::uint16_t e : experts.subspan(at, k)) {
      for (std::size_t i = sets.first_of[e]; i < sets.first_of[e + 1U]; ++i) {
        seen_.push_back(sets.sets[i]);
        missed_[sets.sets[i]] *= 1.0 - sets.shares[i];
      }
    }
    for (const std::size_t s : seen_) {
      hits_[s] += 1.0 - missed_[s];
      missed_[s] = 1.0;
    }
  }
  const std::size_t tokens = experts.size() / token_ids;
  std::transform(hits_.begin(), hits_.end(), hits.begin(), [&](double n) { return n / static_cast<double>(tokens); });
}

JointUse joint_use(const CopySets& sets, std::size_t lanes, const UsedTogether& together, int l) {
  std::vector<double> exponents;
  if (together.tokens != nullptr) {
    const TokenSample& tokens = *together.tokens;
    std::vector<double> hits(sets.size());
    TokenCount().count(sets, tokens.experts, tokens.layers, tokens.top_k, l, hits);
    const std::vector<double> alone = independent_misses(sets, chances_of(tokens, sets.first_of.size() - 1, l));
    // Half a token stands for none: a sample cannot say that a chance is 0 or 1, and nothing of what it hardly uses.
    const double least = 0.5 / static_cast<double>(tokens.tokens());
    for (std::size_t s = 0; s < sets.size(); ++s) {
      exponents.push_back(exponent(1.0 - hits[s], alone[s], least));
    }
  } else {
    const std::vector<float> pi = chances_of(together.loads->layer(l), together.top_k);
    const std::vector<double> alone = independent_misses(sets, pi);
    const OpenGroups groups(pi, together.groups, together.top_groups);
    for (std::size_t s = 0; s < sets.size(); ++s) {
      exponents.push_back(exponent(groups.miss(sets.of(s)), alone[s], MissProbability::kLeast));
    }
  }
  const auto end = exponents.begin() + static_cast<std::ptrdiff_t>(lanes);
  return {{exponents.begin(), end}, {end, exponents.end()}};
}

}  // namespace epsim
