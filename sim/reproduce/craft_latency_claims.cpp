// Claims about TTFT and ITL: runs at fixed rates and near the knees.
#include <fmt/format.h>

#include <algorithm>

#include "sim/reproduce/craft_claims.h"
#include "sim/reproduce/craft_groups.h"

namespace epsim {
namespace {

using namespace craft;

// C07 and C08: TTFT at fixed rates below the saturation of every policy.
Needs c07_needs(const CraftScope& scope) { return searches(scope, kEight, kTriple, true); }

// Share of BASE's TTFT that `policy` saves at the i-th of the fixed rates.
double saved(const SetupEvidence& setup, std::string_view policy, std::size_t seed, std::size_t i) {
  return 1 - setup.of(policy).fixed[seed][i].ttft_mean_s / setup.of("base").fixed[seed][i].ttft_mean_s;
}
double mean_saved(const SetupEvidence& setup, std::string_view policy, std::size_t seed) {
  const std::size_t rates = setup.of("base").fixed[seed].size();
  double sum = 0;
  for (std::size_t i = 0; i < rates; ++i) {
    sum += saved(setup, policy, seed, i);
  }
  return sum / static_cast<double>(rates);
}

// The mean over setups and rates, and the rate of a setup at which most is saved.
Rows ttft_rows(const CraftEvidence& evidence, const CraftScope& scope, const char* id, const char* name,
               std::string_view policy, const char* paper_mean, double stated_mean, const char* paper_max,
               double stated_max) {
  const std::vector<std::string_view> setups = scope.of(kEight);
  std::vector<SetupRatio> each;
  for (const std::string_view setup : setups) {
    const SetupEvidence& here = evidence.find(setup)->second;
    const std::vector<std::vector<FixedRate>>& by_seed = here.of("base").fixed;
    for (std::size_t k = 0; k < by_seed.size(); ++k) {
      for (std::size_t i = 0; i < by_seed[k].size(); ++i) {
        each.push_back({fmt::format("{} at {:g} %", setup, 100 * by_seed[k][i].share), static_cast<int>(k),
                        100 * saved(here, policy, k, i)});
      }
    }
  }
  const RatioSummary found = summarize_ratios(each);
  ClaimRow mean = named_row(id, fmt::format("TTFT that {} saves over BASE, mean", name), paper_mean, "%");
  mean.value = found.mean;
  mean.half_width = found.mean_half_width;
  mean.low = 20;
  mean.high = 38;
  mean.no_effect = 0;
  mean.stated = stated_mean;
  mean.note = "over all setups at 60, 80 and 95 % of the lowest policy's knee";
  ClaimRow max = mean;
  max.what = fmt::format("TTFT that {} saves over BASE, largest", name);
  max.paper = paper_max;
  max.value = found.max;
  max.half_width = found.setup_half_width;
  max.low = 45;
  max.high = 70;
  max.stated = stated_max;
  max.note = fmt::format("on {} of the lowest policy's knee", found.max_setup);
  return {mean, max};
}

Rows c07_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  return ttft_rows(evidence, scope, "C07", "CRA8", "cra8", "29 %", 29, "58 %", 58);
}
Rows c08_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  const std::vector<std::string_view> setups = scope.of(kEight);
  const RatioSummary found =
      summarize_ratios(by_setup_and_seed(evidence, setups, [](const SetupEvidence& setup, std::size_t seed) {
        return 100 * (mean_saved(setup, "eplb", seed) - mean_saved(setup, "cra8", seed));
      }));
  ClaimRow apart = named_row("C08", "TTFT saved by EPLB less by CRA8, mean", "1 point", "points");
  apart.value = found.mean;
  apart.half_width = found.mean_half_width;
  apart.low = -3;
  apart.high = 3;
  Rows out = ttft_rows(evidence, scope, "C08", "EPLB", "eplb", "30 %", 30, "59 %", 59);
  out.push_back(apart);
  return out;
}

// C28: the paper explains equal ITL with what a step that only decodes is bound by, so such steps are compared. The
// gaps between tokens are told beside: most steps near the knee hold somebody's prompt, and their length is the
// prompt's.
Needs c28_needs(const CraftScope& scope) { return searches(scope, kEight, kTriple); }
ClaimRow c28_row(const CraftEvidence& evidence, const std::vector<std::string_view>& setups, const char* what,
                 double NearKnee::*seconds) {
  const auto time_of = [&](const SetupEvidence& setup, std::string_view policy, std::size_t seed) {
    return setup.of(policy).near_knee[seed].*seconds;
  };
  const auto spread = [&](const SetupEvidence& setup, std::size_t seed) {
    const auto [least, most] = std::minmax(
        {time_of(setup, kTriple[0], seed), time_of(setup, kTriple[1], seed), time_of(setup, kTriple[2], seed)});
    return 100 * (most / least - 1);
  };
  const RatioSummary found = summarize_ratios(by_setup_and_seed(evidence, setups, spread));
  std::string note;
  for (const std::string_view name : setups) {
    const SetupEvidence& setup = evidence.find(name)->second;
    note += fmt::format("{}{} {:.0f}/{:.0f}/{:.0f}", note.empty() ? "base/cra8/eplb in ms, first seed: " : ", ", name,
                        time_of(setup, kTriple[0], 0) * 1e3, time_of(setup, kTriple[1], 0) * 1e3,
                        time_of(setup, kTriple[2], 0) * 1e3);
  }
  ClaimRow out = named_row("C28", fmt::format("{} near the knee, slowest policy over fastest", what), "the same", "%");
  out.value = found.mean;
  out.half_width = found.mean_half_width;
  out.high = 10;
  out.note = note;
  return out;
}

Rows c28_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  const std::vector<std::string_view> setups = scope.of(kEight);
  Rows out{c28_row(evidence, setups, "steps without prompts", &NearKnee::decode_step_s),
           c28_row(evidence, setups, "gaps between tokens", &NearKnee::itl_mean_s)};
  out.back().must_hold = false;
  return out;
}

const CraftClaim kClaims[] = {
    {"C07", "CRA8 lowers TTFT by 29 %, up to 58 %", c07_needs, c07_rows},
    {"C08", "EPLB lowers TTFT as much", c07_needs, c08_rows},
    {"C28", "ITL is the same under all policies", c28_needs, c28_rows},
};

}  // namespace

std::span<const CraftClaim> craft_latency_claims() { return kClaims; }

}  // namespace epsim
