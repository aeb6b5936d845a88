// The setups and policies that CRAFT's claims speak of together, for the files that hold the claims.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/reproduce/craft_claims.h"

namespace epsim::craft {

using Needs = std::vector<CraftNeed>;
using Rows = std::vector<ClaimRow>;
using Names = std::span<const std::string_view>;

inline constexpr std::string_view kEight[] = {"de8", "dj8", "dl8", "da8", "ke8", "kj8", "kl8", "ka8"};
inline constexpr std::string_view kDeepSeek[] = {"de8", "dj8", "dl8", "da8"};
inline constexpr std::string_view kKimi[] = {"ke8", "kj8", "kl8", "ka8"};
inline constexpr std::string_view kHighSkew[] = {"de8", "dj8", "ke8", "kj8"};
inline constexpr std::string_view kLowSkew[] = {"dl8", "da8", "kl8", "ka8"};
inline constexpr std::string_view kSix[] = {"ke6", "kj6", "kl6"};
inline constexpr std::string_view kTwelve[] = {"ke12", "kj12", "kl12"};
inline constexpr std::string_view kScaling[] = {"ke6", "kj6", "kl6", "ke8", "kj8", "kl8", "ke12", "kj12", "kl12"};
inline constexpr std::string_view kFactors[] = {"de8", "ke8"};  // setups of the sweep over R
inline constexpr std::string_view kSwept[] = {"cra2", "cra4", "cra8", "cra16",
                                              "cra32"};  // its policies, EPLB beside them

inline constexpr std::string_view kWithoutEplb[] = {"base", "cra8"}, kWithCopies[] = {"cra8", "eplb"};
inline constexpr std::string_view kTriple[] = {"base", "cra8", "eplb"};

struct Band {
  double low, high;
};

inline Needs searches(const CraftScope& scope, Names setups, Names policies, bool fixed_rate = false) {
  Needs out;
  for (const std::string_view setup : scope.of(setups)) {
    for (const std::string_view policy : policies) {
      out.push_back({.setup = setup, .policy = policy, .searched = true, .fixed_rate = fixed_rate});
    }
  }
  return out;
}

// figure(setup's evidence, seed), setup by setup, for every seed.
template <class Figure>
std::vector<SetupRatio> by_setup_and_seed(const CraftEvidence& evidence, const std::vector<std::string_view>& setups,
                                          const Figure& figure) {
  std::vector<SetupRatio> out;
  for (const std::string_view setup : setups) {
    const SetupEvidence& here = evidence.find(setup)->second;
    for (std::size_t k = 0; k < here.seeds; ++k) {
      out.push_back({std::string(setup), static_cast<int>(k), figure(here, k)});
    }
  }
  return out;
}

// The ratio of two knees. Each lies anywhere inside its bracket, whose width relative to the rate over sqrt(12) is its
// deviation.
inline SetupRatio knee_ratio(std::string setup, std::size_t seed, const PolicyEvidence& of, const PolicyEvidence& to) {
  const Knee &above = of.searches[seed].knee, &below = to.searches[seed].knee;
  const double value = above.rate / below.rate;
  return {std::move(setup), static_cast<int>(seed), value,
          value * std::hypot(above.bracket_share, below.bracket_share) / std::sqrt(12.0)};
}

// Knees of `of` over those of `to`, setup by setup, for every seed.
inline std::vector<SetupRatio> knee_ratios(const CraftEvidence& evidence, const std::vector<std::string_view>& setups,
                                           std::string_view of, std::string_view to) {
  std::vector<SetupRatio> out;
  for (const std::string_view setup : setups) {
    const SetupEvidence& here = evidence.find(setup)->second;
    for (std::size_t seed = 0; seed < here.seeds; ++seed) {
      out.push_back(knee_ratio(std::string(setup), seed, here.of(of), here.of(to)));
    }
  }
  return out;
}

}  // namespace epsim::craft
