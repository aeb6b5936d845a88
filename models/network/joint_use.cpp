#include "models/network/joint_use.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/network/miss_probability.h"

namespace epsim {
namespace {

// Copies that a token needs or not, set by set.
struct CopySets {
  std::vector<std::size_t> first{0};      // [set + 1]
  std::vector<NodeShares::Entry> copies;  // set by set
  std::vector<std::size_t> first_of;      // [expert + 1] in `sets` and `shares`
  std::vector<std::size_t> sets;          // that have the expert
  std::vector<double> shares;             // of its tokens, that the set takes
  std::size_t size() const { return first.size() - 1; }
  std::span<const NodeShares::Entry> of(std::size_t s) const {
    return std::span(copies).subspan(first[s], first[s + 1] - first[s]);
  }
  void end_set() { first.push_back(copies.size()); }
};

// Who has each expert. Copies of one expert in a set exclude each other: a token is computed by one of them.
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

CopySets sets_of(const LayerPlacement& layer, const SourceLanes& lanes, const NodeShares* nodes) {
  CopySets out;
  for (int i = 0; i < lanes.lanes(); ++i) {
    const std::span<const float> shares = shares_of(layer, lanes.choice[i]);
    for (int s = layer.first_slot[lanes.gpu[i]]; s < layer.first_slot[lanes.gpu[i] + 1]; ++s) {
      out.copies.push_back({layer.expert[s], shares[s]});
    }
    out.end_set();
  }
  for (std::size_t n = 0; nodes != nullptr && n < nodes->lists(); ++n) {
    const auto list = nodes->list(n);
    out.copies.insert(out.copies.end(), list.begin(), list.end());
    out.end_set();
  }
  index_by_expert(out, layer.copies.size());
  return out;
}

// [set] Tokens of the sample that need none of the set's copies.
std::vector<double> count_missed(const CopySets& sets, const TokenSample& tokens, int l) {
  std::vector<double> out(sets.size(), static_cast<double>(tokens.tokens()));
  std::vector<double> missed(sets.size(), 1.0);  // by the token at hand
  std::vector<std::size_t> seen;                 // sets that it may need, some more than once
  for (std::size_t t = 0; t < tokens.tokens(); ++t) {
    seen.clear();
    for (const std::uint16_t e : tokens.at(t, l)) {
      for (std::size_t i = sets.first_of[e]; i < sets.first_of[e + 1U]; ++i) {
        seen.push_back(sets.sets[i]);
        missed[sets.sets[i]] *= 1.0 - sets.shares[i];
      }
    }
    for (const std::size_t s : seen) {
      out[s] -= 1.0 - missed[s];
      missed[s] = 1.0;
    }
  }
  return out;
}

// [set] The chance that a token needs none, with the sample's loads and independent experts.
std::vector<double> independent_misses(const CopySets& sets, const TokenSample& tokens, int l) {
  std::vector<float> pi(sets.first_of.size() - 1, 0.0F);
  for (std::size_t t = 0; t < tokens.tokens(); ++t) {
    for (const std::uint16_t e : tokens.at(t, l)) {
      pi[e] += 1.0F;
    }
  }
  for (float& p : pi) {
    p /= static_cast<float>(tokens.tokens());
  }
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

}  // namespace

JointUse joint_use(const LayerPlacement& layer, const SourceLanes& lanes, const NodeShares* nodes,
                   const TokenSample& tokens, int l) {
  const CopySets sets = sets_of(layer, lanes, nodes);
  const std::vector<double> counted = count_missed(sets, tokens, l), alone = independent_misses(sets, tokens, l);
  const auto all = static_cast<double>(tokens.tokens());
  std::vector<double> exponents(sets.size(), 1.0);
  for (std::size_t s = 0; s < exponents.size(); ++s) {
    // Half a token stands for none: a sample cannot say that a chance is 0 or 1, and nothing of what it hardly uses.
    if ((1.0 - alone[s]) * all > 0.5 && alone[s] > MissProbability::kLeast) {
      exponents[s] = std::log(std::clamp(counted[s], 0.5, all - 0.5) / all) / std::log(alone[s]);
    }
  }
  const auto end = exponents.begin() + lanes.lanes();
  return {{exponents.begin(), end}, {end, exponents.end()}};
}

}  // namespace epsim
