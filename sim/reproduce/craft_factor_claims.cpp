// Claims about the replication factor R: goodput of CRAFT with 2 to 32 copies per GPU, EPLB's copy per layer beside it.
#include <fmt/format.h>

#include <algorithm>

#include "sim/reproduce/craft_claims.h"
#include "sim/reproduce/craft_groups.h"

namespace epsim {
namespace {

using namespace craft;

Needs factor_needs(const CraftScope& scope, Names setups) {
  if (scope.quick) {
    return {};
  }
  Needs out = searches(scope, setups, kTriple);
  const Needs swept = searches(scope, setups, kSwept);
  out.insert(out.end(), swept.begin(), swept.end());
  return out;
}

double mean_knee(const PolicyEvidence& policy) {
  double sum = 0;
  for (const GoodputSearch& search : policy.searches) {
    sum += search.knee.rate;
  }
  return sum / static_cast<double>(policy.searches.size());
}

std::string_view best_factor(const SetupEvidence& setup) {
  return *std::max_element(std::begin(kSwept), std::end(kSwept), [&](std::string_view a, std::string_view b) {
    return mean_knee(setup.of(a)) < mean_knee(setup.of(b));
  });
}

// The other R whose goodput the seeds do not tell from the best one's.
std::string as_good_as(const SetupEvidence& setup, std::string_view best) {
  std::vector<SetupRatio> ratios;
  for (const std::string_view policy : kSwept) {
    for (std::size_t k = 0; policy != best && k < setup.of(best).searches.size(); ++k) {
      ratios.push_back(knee_ratio(std::string(policy), k, setup.of(policy), setup.of(best)));
    }
  }
  const double half_width = summarize_ratios(ratios).setup_half_width.value_or(0);
  std::string out;
  for (const std::string_view policy : kSwept) {
    if (policy != best && mean_knee(setup.of(policy)) >= (1 - half_width) * mean_knee(setup.of(best))) {
      out += fmt::format("{}{}", out.empty() ? "" : ", ", policy);
    }
  }
  return out.empty() ? "all others are lower by more than their interval" : "not told apart from it: " + out;
}

constexpr std::string_view kKe8[] = {"ke8"};
Needs c02_needs(const CraftScope& scope) { return factor_needs(scope, kKe8); }
Rows c02_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  if (scope.quick) {
    return {};
  }
  const std::string_view best = best_factor(evidence.at("ke8"));
  const RatioSummary found = summarize_ratios(knee_ratios(evidence, {"ke8"}, best, "eplb"));
  ClaimRow out = named_row("C02", "best CRAFT / EPLB goodput, KE8", "1.17x");
  out.value = found.mean;
  out.half_width = found.mean_half_width;
  out.low = 1.11;
  out.high = 1.23;
  out.no_effect = 1;
  out.stated = 1.17;
  out.note = fmt::format("the best of R = 2, 4, 8, 16, 32 is {}", best);
  return {out};
}

Needs c27_needs(const CraftScope& scope) { return factor_needs(scope, kFactors); }
Rows c27_rows(const CraftEvidence& evidence, const CraftScope& scope) {
  Rows out;
  if (scope.quick) {
    return out;
  }
  for (const std::string_view name : kFactors) {
    const SetupEvidence& setup = evidence.find(name)->second;
    ClaimRow where = named_row("C27", fmt::format("R with the highest goodput, {}", name), "8");
    where.value = std::stod(std::string(best_factor(setup).substr(3)));
    where.low = 4;
    where.high = 16;
    where.note = "requests/s, seed by seed:";
    for (const std::string_view policy : kSwept) {
      where.note += fmt::format("{} {}", policy == kSwept[0] ? "" : ",", policy);
      for (const GoodputSearch& search : setup.of(policy).searches) {
        where.note += fmt::format(" {:.3f}", search.knee.rate);
      }
    }
    if (setup.of(kSwept[0]).searches.size() > 1) {
      where.note += "; " + as_good_as(setup, best_factor(setup));
    }
    const RatioSummary found = summarize_ratios(knee_ratios(evidence, {name}, "eplb", "cra8"));
    ClaimRow full =
        named_row("C27", fmt::format("goodput of a copy per layer and GPU over R = 8, {}", name), "below 1");
    full.value = found.mean;
    full.half_width = found.mean_half_width;
    full.high = 1;
    full.no_effect = 1;
    full.stated = 0.9;
    full.note = "EPLB stands for R = 58 and 60: the same memory";
    out.push_back(where);
    out.push_back(full);
  }
  return out;
}

const CraftClaim kFactorClaims[] = {
    {"C02", "the best CRAFT beats EPLB by 1.17x on KE8", c02_needs, c02_rows},
    {"C27", "R = 8 is best", c27_needs, c27_rows},
};

}  // namespace

std::span<const CraftClaim> craft_factor_claims() { return kFactorClaims; }

}  // namespace epsim
