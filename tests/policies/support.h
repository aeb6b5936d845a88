// What the tests of policies share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "policies/placement_policy.h"
#include "policies/registry.h"
#include "sim/core/config.h"
#include "sim/core/rng.h"
#include "sim/domain/affinity.h"

namespace epsim::test {

inline LoadWindow window(const std::vector<std::vector<double>>& rows) {
  LoadWindow out(static_cast<int>(rows.size()), static_cast<int>(rows.front().size()));
  for (std::size_t l = 0; l < rows.size(); ++l) {
    std::copy(rows[l].begin(), rows[l].end(), out.layer(static_cast<int>(l)).begin());
  }
  return out;
}

// The policy with its options given as YAML; every option must be known.
inline std::unique_ptr<PlacementPolicy> policy(const std::string& name, const std::string& yaml = "{}") {
  ConfigReader options = Config::from_text(yaml, "options.yaml").root();
  std::unique_ptr<PlacementPolicy> made = placement_policy_entry(name, options).make(options);
  options.finish();
  return made;
}

// The same of a per-step policy.
inline std::unique_ptr<StepPolicy> step_policy(const std::string& name, const std::string& yaml = "{}") {
  ConfigReader options = Config::from_text(yaml, "options.yaml").root();
  std::unique_ptr<StepPolicy> made =
      require_named(step_policies(), "per-step policy", name, options.place("")).make(options);
  options.finish();
  return made;
}

// Loads of the kinds on which placement policies tend to go wrong.
enum class LoadKind { kZero, kOneHot, kEqual, kTies, kUniform, kSkewed };
inline constexpr std::initializer_list<LoadKind> kLoadKinds = {LoadKind::kZero, LoadKind::kOneHot,  LoadKind::kEqual,
                                                               LoadKind::kTies, LoadKind::kUniform, LoadKind::kSkewed};

inline LoadWindow random_window(LoadKind kind, int layers, int experts, std::uint64_t index) {
  RandomStream random(Seed{20261120}, "test loads", index);
  LoadWindow out(layers, experts);
  for (int l = 0; l < layers; ++l) {
    const std::uint64_t hot = random.below(static_cast<std::uint64_t>(experts));
    for (int e = 0; e < experts; ++e) {
      double& load = out.layer(l)[static_cast<std::size_t>(e)];
      switch (kind) {
        case LoadKind::kZero:
          load = 0;
          break;
        case LoadKind::kOneHot:
          load = static_cast<std::uint64_t>(e) == hot ? 1000 : 0;
          break;
        case LoadKind::kEqual:
          load = 7;
          break;
        case LoadKind::kTies:
          load = 10.0 * static_cast<double>(random.below(4));
          break;
        case LoadKind::kUniform:
          load = static_cast<double>(random.below(1000));
          break;
        case LoadKind::kSkewed:
          load = static_cast<double>(static_cast<std::int64_t>(random.lognormal(5, 1.2)));
          break;
      }
    }
  }
  if (experts > 1) {  // for policies that group experts by what they serve together
    auto affinity = std::make_shared<Affinity>(layers, experts);
    for (int l = 0; l < layers; ++l) {
      for (int pair = 0; pair < 4 * experts; ++pair) {
        const int a = static_cast<int>(random.below(static_cast<std::uint64_t>(experts)));
        const int b = static_cast<int>(random.below(static_cast<std::uint64_t>(experts)));
        if (a != b) {
          affinity->add(l, a, b);
        }
      }
    }
    out.set_affinity(std::move(affinity));
  } else {
    out.set_affinity(std::make_shared<Affinity>(layers, experts));
  }
  return out;
}

}  // namespace epsim::test
