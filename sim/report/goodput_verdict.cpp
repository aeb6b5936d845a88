// Which policy a goodput study recommends, in one sentence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/report/goodput_summary.h"

namespace epsim {
namespace {

double rate_of(const GoodputStudy& study, std::size_t policy, int seed) {
  const GoodputSearch& s = search_of(study, policy, seed);
  return study.options.slo.any() ? s.slo.rate : s.knee.rate;
}

// Of the rates, seed by seed.
Estimate ratio_of(const GoodputStudy& study, std::size_t policy, std::size_t other) {
  std::vector<double> ratios;
  for (int s = 0; s < study.seeds; ++s) {
    ratios.push_back(ratio(rate_of(study, policy, s), rate_of(study, other, s)));
  }
  return estimate(ratios);
}

// +1 above 1, -1 below, 0 not told apart.
int side(const Estimate& e, const GoodputStudy& study) {
  const double margin = std::isfinite(e.half_width) ? e.half_width : study.options.tolerance;
  return e.mean - margin > 1 ? 1 : e.mean + margin < 1 ? -1 : 0;
}

std::string change_words(const Estimate& e) {
  const double change = (e.mean - 1) * 100;
  return fmt::format("{:.1f} % {}", std::abs(change), change < 0 ? "less" : "more");
}

std::string interval_text(const Estimate& e, int seeds) {
  return std::isfinite(e.half_width)
             ? fmt::format("95 % interval {:+.1f} to {:+.1f} %, {} seeds", (e.mean - e.half_width - 1) * 100,
                           (e.mean + e.half_width - 1) * 100, seeds)
             : "one seed, so no interval";
}

std::string kv_text(double share) {
  return share > 0.0005 ? fmt::format("for {} % of the KV room", percent(share)) : "at no cost in KV room";
}

// Where the rates were read off.
std::string condition_text(const GoodputOptions& o) {
  return o.slo.any() ? "within the SLO" : fmt::format("with a mean TTFT of at most {:g} times the idle one", o.k);
}

struct Choice {
  const GoodputStudy& study;
  std::vector<PolicyGoodput> policies;

  std::string name(std::size_t p) const { return plain_name(policies[p].policy); }

  // Better than the first policy, the fastest or one as good that takes less KV room; the first where none is better.
  std::size_t best() const {
    std::vector<std::size_t> better;
    for (std::size_t p = 1; p < policies.size(); ++p) {
      if (side(ratio_of(study, p, 0), study) > 0) {
        better.push_back(p);
      }
    }
    const auto slower = [&](std::size_t a, std::size_t b) { return policies[a].rate.mean < policies[b].rate.mean; };
    if (better.empty()) {
      return 0;
    }
    const std::size_t fastest = *std::max_element(better.begin(), better.end(), slower);
    std::size_t out = fastest;
    for (const std::size_t p : better) {
      if (side(ratio_of(study, fastest, p), study) <= 0 && policies[p].kv_lost_share < policies[out].kv_lost_share) {
        out = p;
      }
    }
    return out;
  }

  // The others that are not told apart from the chosen one, or everyone's difference to the first.
  std::string as_good_as(std::size_t chosen) const {
    std::string out;
    for (std::size_t p = 1; p < policies.size(); ++p) {
      if (p != chosen && side(ratio_of(study, p, 0), study) > 0 && side(ratio_of(study, p, chosen), study) == 0) {
        out += fmt::format("{}{} ({} % of the KV room)", out.empty() ? "" : ", ", name(p),
                           percent(policies[p].kv_lost_share));
      }
    }
    return out.empty() ? out : fmt::format("; no difference to {}", out);
  }

  std::string differences() const {
    std::string out;
    for (std::size_t p = 1; p < policies.size(); ++p) {
      const Estimate ratio = ratio_of(study, p, 0);
      const char* word = side(ratio, study) < 0 ? "" : "no difference, ";
      out += fmt::format("{}{}: {}{} ({})", out.empty() ? "" : "; ", name(p), word, change_words(ratio),
                         interval_text(ratio, study.seeds));
    }
    return out;
  }
};

std::string never_text(const Choice& choice, std::size_t held) {
  if (held == choice.policies.size()) {
    return fmt::format("No policy meets the SLO, not even with one request in the system: {} fails.",
                       choice.policies[0].slo.limit);
  }
  return fmt::format(
      "Use {}: it sustains {} requests/s within the SLO, {}; {} does not meet it, not even with one "
      "request in the system ({} fails).",
      choice.name(held), rounded(choice.policies[held].rate.mean), kv_text(choice.policies[held].kv_lost_share),
      choice.name(0), choice.policies[0].slo.limit);
}

}  // namespace

std::string plain_name(const std::string& policy) {
  return policy == "contiguous" ? "load balancing off" : policy == "base" ? "placement alone" : policy;
}

GoodputVerdict goodput_verdict(const GoodputStudy& study) {
  const Choice choice{study, summarize(study)};
  const std::vector<PolicyGoodput>& policies = choice.policies;
  if (!(policies[0].rate.mean > 0)) {
    const auto faster = std::max_element(policies.begin(), policies.end(),
                                         [](const auto& a, const auto& b) { return a.rate.mean < b.rate.mean; });
    const bool none = !(faster->rate.mean > 0);
    const auto held = static_cast<std::size_t>(faster - policies.begin());
    return {none ? 0 : held, !none, never_text(choice, none ? policies.size() : held)};
  }
  const std::size_t chosen = choice.best();
  const std::string rate =
      fmt::format("{} requests/s {}", rounded(policies[chosen].rate.mean), condition_text(study.options));
  if (policies.size() == 1) {
    return {0, false, fmt::format("{} sustains {}.", choice.name(0), rate)};
  }
  if (chosen == 0) {
    return {0, false,
            fmt::format("Keep {}: it sustains {}, and nothing sustains more ({}).", choice.name(0), rate,
                        choice.differences())};
  }
  const Estimate ratio = ratio_of(study, chosen, 0);
  return {chosen, true,
          fmt::format("Use {}: it sustains {}, {} than {} ({}), {}{}.", choice.name(chosen), rate, change_words(ratio),
                      choice.name(0), interval_text(ratio, study.seeds), kv_text(policies[chosen].kv_lost_share),
                      choice.as_good_as(chosen))};
}

}  // namespace epsim
