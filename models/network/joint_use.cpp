#include "models/network/joint_use.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/network/miss_probability.h"

namespace epsim {
namespace {

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
  const double tokens = static_cast<double>(experts.size() / token_ids);
  std::transform(hits_.begin(), hits_.end(), hits.begin(), [&](double n) { return n / tokens; });
}

JointUse joint_use(const CopySets& sets, std::size_t lanes, const TokenSample& tokens, int l) {
  std::vector<double> hits(sets.size());
  TokenCount().count(sets, tokens.experts, tokens.layers, tokens.top_k, l, hits);
  const std::vector<double> alone = independent_misses(sets, tokens, l);
  // Half a token stands for none: a sample cannot say that a chance is 0 or 1, and nothing of what it hardly uses.
  const double least = 0.5 / static_cast<double>(tokens.tokens());
  std::vector<double> exponents(sets.size(), 1.0);
  for (std::size_t s = 0; s < exponents.size(); ++s) {
    if (1.0 - alone[s] > least && alone[s] > MissProbability::kLeast) {
      const double missed = std::clamp(1.0 - hits[s], least, 1.0 - least);
      exponents[s] = std::log(missed) / std::log(alone[s]);
    }
  }
  const auto end = exponents.begin() + static_cast<std::ptrdiff_t>(lanes);
  return {{exponents.begin(), end}, {end, exponents.end()}};
}

}  // namespace epsim
