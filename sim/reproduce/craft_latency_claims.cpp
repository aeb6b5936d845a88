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

struct Reduction {
  double mean = 0, max = -1;
};
Reduction ttft_reduction(const CraftEvidence& evidence, const std::vector<std::string_view>& setups,
                         std::string_view policy) {
  Reduction out;
  double count = 0;
  for (const std::string_view name : setups) {
    const SetupEvidence& setup = evidence.find(name)->second;
    const std::vector<FixedRate>&base = setup.of("base").fixed, &here = setup.of(policy).fixed;
    for (std::size_t i = 0; i < base.size(); ++i) {
      const double cut = 1 - here[i].ttft_mean_s / base[i].ttft_mean_s;
      out.mean += cut;
      out.max = std::max(out.max, cut);
      ++count;
    }
  }
  out.mean /= count;
  return out;
}

ClaimRow ttft_row(const char* id, std::string what, const char* paper, double share, double stated, Band band) {
  ClaimRow out = named_row(id, std::move(what), paper, "%");
  out.value = 100 * share;
  out.low = band.low;
  out.high = band.high;
  out.no_effect = 0;
  out.stated = stated;
  out.note = "over all setups at 60, 80 and 95 % of the lowest policy's knee, one seed";
  return out;
}

Rows c07_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  const Reduction found = ttft_reduction(evidence, scope.of(kEight), "cra8");
  return {ttft_row("C07", "TTFT that CRA8 saves over BASE, mean", "29 %", found.mean, 29, {20, 38}),
          ttft_row("C07", "TTFT that CRA8 saves over BASE, largest", "58 %", found.max, 58, {45, 70})};
}
Rows c08_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  const Reduction eplb = ttft_reduction(evidence, scope.of(kEight), "eplb"),
                  cra8 = ttft_reduction(evidence, scope.of(kEight), "cra8");
  ClaimRow apart = named_row("C08", "TTFT saved by EPLB less by CRA8, mean", "1 point", "points");
  apart.value = 100 * (eplb.mean - cra8.mean);
  apart.low = -3;
  apart.high = 3;
  return {ttft_row("C08", "TTFT that EPLB saves over BASE, mean", "30 %", eplb.mean, 30, {20, 38}),
          ttft_row("C08", "TTFT that EPLB saves over BASE, largest", "59 %", eplb.max, 59, {45, 70}), apart};
}

// C28: the paper explains equal ITL with what a step that only decodes is bound by, so such steps are compared. The
// gaps between tokens are told beside: most steps near the knee hold somebody's prompt, and their length is the
// prompt's.
Needs c28_needs(const CraftScope& scope) { return searches(scope, kEight, kTriple); }
ClaimRow c28_row(const CraftEvidence& evidence, const std::vector<std::string_view>& setups, const char* what,
                 double NearKnee::*seconds) {
  double spread = 0;
  std::string note;
  for (const std::string_view name : setups) {
    std::vector<double> times;
    for (const std::string_view policy : kTriple) {
      times.push_back(*(evidence.find(name)->second.of(policy).near_knee).*seconds);
    }
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    spread += (*most / *least - 1) / static_cast<double>(setups.size());
    note += fmt::format("{}{} {:.0f}/{:.0f}/{:.0f}", note.empty() ? "base/cra8/eplb in ms: " : ", ", name,
                        times[0] * 1e3, times[1] * 1e3, times[2] * 1e3);
  }
  ClaimRow out = named_row("C28", fmt::format("{} near the knee, slowest policy over fastest", what), "the same", "%");
  out.value = 100 * spread;
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
