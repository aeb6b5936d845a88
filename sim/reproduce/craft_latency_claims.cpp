// Claims about TTFT and ITL: runs at a fixed rate and next below the knees.
#include <fmt/format.h>

#include <algorithm>

#include "sim/reproduce/craft_claims.h"
#include "sim/reproduce/craft_groups.h"

namespace epsim {
namespace {

using namespace craft;

// C07 and C08: TTFT at a fixed rate near, but below, saturation of every policy.
Needs c07_needs(const CraftScope& scope) { return searches(scope, kEight, kTriple, true); }

// Share of BASE's TTFT that `policy` saves at the fixed rate, setup by setup, in %.
std::vector<SetupRatio> saved(const CraftEvidence& evidence, const CraftScope& scope, std::string_view policy) {
  return by_setup_and_seed(evidence, scope.of(kEight), [&](const SetupEvidence& setup, std::size_t seed) {
    return 100 * (1 - setup.of(policy).fixed[seed].ttft_mean_s / setup.of("base").fixed[seed].ttft_mean_s);
  });
}

// What the paper states of a policy's TTFT, over BASE's.
struct TtftClaim {
  const char* id;
  const char* name;
  std::string_view policy;
  double stated_mean, stated_max;  // %
};
constexpr TtftClaim kC07{"C07", "CRA8", "cra8", 29, 58};
constexpr TtftClaim kC08{"C08", "EPLB", "eplb", 30, 59};

// The mean over setups, and the setup on which most is saved.
Rows ttft_rows(const CraftEvidence& evidence, const CraftScope& scope, const TtftClaim& claim) {
  const RatioSummary found = summarize_ratios(saved(evidence, scope, claim.policy));
  ClaimRow mean = named_row(claim.id, fmt::format("TTFT that {} saves over BASE, mean", claim.name),
                            fmt::format("{:g} %", claim.stated_mean), "%");
  mean.value = found.mean;
  mean.half_width = found.mean_half_width;
  mean.low = 20;
  mean.high = 38;
  mean.no_effect = 0;
  mean.stated = claim.stated_mean;
  mean.note = fmt::format("over the setups on 8 nodes, at {:g} % of the lowest policy's knee", 1e2 * kNearSaturation);
  ClaimRow max = mean;
  max.what = fmt::format("TTFT that {} saves over BASE, largest", claim.name);
  max.paper = fmt::format("{:g} %", claim.stated_max);
  max.value = found.max;
  max.half_width = found.setup_half_width;
  max.low = 45;
  max.high = 70;
  max.stated = claim.stated_max;
  max.note = "on " + found.max_setup;
  return {mean, max};
}

Rows c07_rows(const CraftEvidence& evidence, const CraftScope& scope) { return ttft_rows(evidence, scope, kC07); }
Rows c08_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  std::vector<SetupRatio> less = saved(evidence, scope, "eplb");
  const std::vector<SetupRatio> cra8 = saved(evidence, scope, "cra8");
  for (std::size_t i = 0; i < less.size(); ++i) {
    less[i].value -= cra8[i].value;
  }
  const RatioSummary found = summarize_ratios(less);
  ClaimRow apart = named_row("C08", "TTFT saved by EPLB less by CRA8, mean", "1 point", "points");
  apart.value = found.mean;
  apart.half_width = found.mean_half_width;
  apart.low = -3;
  apart.high = 3;
  Rows out = ttft_rows(evidence, scope, kC08);
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

const CraftClaim kLatencyClaims[] = {
    {"C07", "CRA8 lowers TTFT by 29 %, up to 58 %", c07_needs, c07_rows},
    {"C08", "EPLB lowers TTFT as much", c07_needs, c08_rows},
    {"C28", "ITL is the same under all policies", c28_needs, c28_rows},
};

}  // namespace

std::span<const CraftClaim> craft_latency_claims() { return kLatencyClaims; }

}  // namespace epsim
