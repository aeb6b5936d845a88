#include "sim/report/goodput_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/core/check.h"
#include "sim/core/mapped.h"

namespace epsim {
namespace {

std::span<const GoodputSearch> of_policy(std::span<const GoodputSearch> all, const GoodputStudy& study,
                                         std::size_t policy) {
  const auto seeds = static_cast<std::size_t>(study.seeds);
  EPSIM_CHECK((policy + 1) * seeds <= all.size(), "a study has a search of each policy under each seed");
  return all.subspan(policy * seeds, seeds);
}

// A figure of every seed of a policy.
template <class Figure>
std::vector<double> by_seed(const GoodputStudy& study, std::size_t policy, Figure figure) {
  return mapped(searches_of(study, policy), figure);
}

// A policy's figure over the first policy's, seed by seed.
template <class Figure>
std::vector<double> ratios_by_seed(const GoodputStudy& study, std::size_t policy, Figure figure) {
  return ratios(by_seed(study, policy, figure), by_seed(study, 0, figure));
}

// The first policy's rate over itself is 1, whatever its bracket.
template <class Figure>
Estimate searched_ratio(const GoodputStudy& study, std::size_t policy, Figure rate) {
  return searched_estimate(ratios_by_seed(study, policy, rate), policy == 0 ? 0 : study.options.tolerance, 2);
}

KneeFigures knee_figures(const GoodputStudy& study, std::size_t policy, double k) {
  const auto at_k = [&](const GoodputSearch& s) -> const Knee& { return knee_at(s, study.options, k); };
  const auto rate = [&](const GoodputSearch& s) { return at_k(s).rate; };
  KneeFigures out;
  out.k = k;
  out.searched = k == study.options.k;
  out.rate = searched_estimate(by_seed(study, policy, rate), study.options.tolerance, 1);
  out.ratio = searched_ratio(study, policy, rate);
  out.ttft_ms = estimate(by_seed(study, policy, [&](const GoodputSearch& s) { return at_k(s).ttft_s * 1e3; }));
  for (const GoodputSearch& search : searches_of(study, policy)) {
    out.steady = out.steady && at_k(search).steady;
    out.reached = out.reached && at_k(search).limit != KneeLimit::kBeyond;
  }
  return out;
}

SloFigures slo_figures(const GoodputStudy& study, std::size_t policy) {
  SloFigures out;
  const auto limits = mapped(searches_of(study, policy), [](const GoodputSearch& s) { return s.slo.limit; });
  out.held_seeds = static_cast<int>(
      std::ranges::count_if(searches_of(study, policy), [](const GoodputSearch& s) { return s.slo.holds; }));
  out.limit = *std::max_element(limits.begin(), limits.end(), [&](const std::string& a, const std::string& b) {
    return std::count(limits.begin(), limits.end(), a) < std::count(limits.begin(), limits.end(), b);
  });
  const auto over_seeds = [&](auto figure) { return estimate(by_seed(study, policy, figure)); };
  if (study.options.slo.per_request()) {
    out.attainment = over_seeds([](const GoodputSearch& s) { return s.best.slo.attainment; });
  }
  out.ttft_mean_ms = over_seeds([](const GoodputSearch& s) { return ms_of(s.best.ttft_s, &Summary::mean); });
  out.ttft_p99_ms = over_seeds([](const GoodputSearch& s) { return ms_of(s.best.ttft_s, &Summary::p99); });
  out.tpot_mean_ms = over_seeds([](const GoodputSearch& s) { return ms_of(s.best.tpot_s, &Summary::mean); });
  out.tpot_p99_ms = over_seeds([](const GoodputSearch& s) { return ms_of(s.best.tpot_s, &Summary::p99); });
  return out;
}

PolicyGoodput policy_figures(const GoodputStudy& study, std::size_t policy) {
  const auto over_seeds = [&](auto figure) { return estimate(by_seed(study, policy, figure)); };
  const auto saturation = [](const GoodputSearch& s) { return s.saturation; };
  PolicyGoodput out;
  out.policy = study.policies[policy];
  const auto rate = [&](const GoodputSearch& s) { return rate_of(study, s); };
  out.rate = searched_estimate(by_seed(study, policy, rate), study.options.tolerance, 1);
  out.ratio = searched_ratio(study, policy, rate);
  out.concurrency = over_seeds([](const GoodputSearch& s) { return s.best.concurrency; });
  out.kv_lost_share = searches_of(study, policy).front().kv_lost_share;
  out.kv_tokens_per_rank = searches_of(study, policy).front().kv_tokens_per_rank;
  if (study.options.slo.any()) {
    out.slo = slo_figures(study, policy);
    return out;
  }
  out.knees = mapped(values_of_k(study.options), [&](double k) { return knee_figures(study, policy, k); });
  out.saturation = over_seeds(saturation);
  out.saturation_ratio = estimate(ratios_by_seed(study, policy, saturation));
  out.idle_ttft_ms = over_seeds([](const GoodputSearch& s) { return s.idle_ttft_s * 1e3; });
  out.tpot_ms = over_seeds([](const GoodputSearch& s) { return ms_of(s.best.tpot_s, &Summary::mean); });
  return out;
}

std::string ratio_words(const Estimate& e) {
  return std::isfinite(e.half_width) ? fmt::format("{:.3f} +- {:.3f}", e.mean, e.half_width)
                                     : fmt::format("{:.3f}", e.mean);
}

std::string conclusion(const PolicyGoodput& policy, const std::string& first, double tolerance) {
  constexpr const char* kWords[] = {"below", "not distinguishable from", "above"};
  const KneeFigures& knee = policy.searched();
  std::string out = fmt::format(
      "{} against {}: {} times the goodput at k = {:g} ({} {}'s), {} times the saturation throughput.", policy.policy,
      first, ratio_words(knee.ratio), knee.k, kWords[side_of_one(knee.ratio, kOneSeed * tolerance) + 1], first,
      ratio_words(policy.saturation_ratio));
  std::vector<double> better, worse;
  for (const KneeFigures& k : policy.knees) {
    if (const int side = side_of_one(k.ratio, kOneSeed * tolerance); side != 0) {
      (side > 0 ? better : worse).push_back(k.k);
    }
  }
  if (!better.empty() && !worse.empty()) {
    out += fmt::format(" The verdict depends on the definition of the knee: above at k = {:g}, below at k = {:g}.",
                       fmt::join(better, ", "), fmt::join(worse, ", "));
  }
  return out;
}

}  // namespace

const KneeFigures& PolicyGoodput::searched() const {
  const auto found = std::find_if(knees.begin(), knees.end(), [](const KneeFigures& k) { return k.searched; });
  EPSIM_CHECK(found != knees.end(), "a study searches for one k");
  return *found;
}

std::span<const GoodputSearch> searches_of(const GoodputStudy& study, std::size_t policy) {
  return of_policy(study.searches, study, policy);
}
std::span<const GoodputSearch> aligned_of(const GoodputStudy& study, std::size_t policy) {
  return of_policy(study.aligned, study, policy);
}

std::vector<std::pair<const GoodputSearch*, bool>> all_searches(const GoodputStudy& study) {
  std::vector<std::pair<const GoodputSearch*, bool>> out;
  for (const GoodputSearch& s : study.searches) {
    out.emplace_back(&s, false);
  }
  for (const GoodputSearch& s : study.aligned) {
    out.emplace_back(&s, true);
  }
  return out;
}

double rate_of(const GoodputStudy& study, const GoodputSearch& search) {
  return study.options.slo.any() ? search.slo.rate : search.knee.rate;
}

std::vector<double> values_of_k(const GoodputOptions& options) {
  std::vector<double> out = options.sensitivity;
  out.push_back(options.k);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

const Knee& knee_at(const GoodputSearch& search, const GoodputOptions& options, double k) {
  if (k == options.k) {
    return search.knee;
  }
  const auto found = std::ranges::find(search.sensitivity, k, &Knee::k);
  EPSIM_CHECK(found != search.sensitivity.end(), "a study has a knee for each of its k");
  return *found;
}

std::vector<PolicyGoodput> summarize(const GoodputStudy& study) {
  std::vector<PolicyGoodput> out;
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    out.push_back(policy_figures(study, p));
  }
  return out;
}

namespace {

std::vector<RateChoice> rates_of(const GoodputStudy& study) {
  std::vector<RateChoice> out;
  for (std::size_t p = 0; p < study.policies.size(); ++p) {
    out.push_back({study.policies[p], by_seed(study, p, [&](const GoodputSearch& s) { return rate_of(study, s); })});
  }
  return out;
}

}  // namespace

std::vector<GainSplit> gain_splits(const GoodputStudy& study) { return gain_splits(rates_of(study)); }

RateVerdict goodput_verdict(const GoodputStudy& study) {
  const std::vector<PolicyGoodput> summaries = summarize(study);
  const std::vector<RateChoice> rates = rates_of(study);
  std::vector<RateChoice> choices;
  std::vector<std::size_t> policies;  // of the choices
  std::string beyond;
  for (std::size_t p = 0; p < rates.size(); ++p) {
    if (is_gain_variant(rates[p].name)) {
      continue;
    }
    if (std::ranges::find(study.out_of_reach, rates[p].name) != study.out_of_reach.end()) {
      beyond += fmt::format("{}{} {} requests/s", beyond.empty() ? "Ceilings that no deployment can have: " : ", ",
                            rates[p].name, rounded(summaries[p].rate.mean));
      continue;
    }
    policies.push_back(p);
    choices.push_back(
        {plain_name(rates[p].name), rates[p].by_seed, summaries[p].kv_lost_share, summaries[p].slo.limit});
  }
  if (choices.empty()) {
    return {0, false, beyond + "."};
  }
  const GoodputOptions& options = study.options;
  const std::string condition = options.slo.any()
                                    ? "within the SLO"
                                    : fmt::format("with a mean TTFT of at most {:g} times the idle one", options.k);
  RateVerdict verdict = verdict_against_first(choices, {condition, options.tolerance, "--seeds 3"});
  verdict.chosen = policies[verdict.chosen];
  verdict.text += beyond.empty() ? "" : fmt::format(" {}.", beyond);
  return verdict;
}

std::vector<std::string> goodput_conclusions(const GoodputStudy& study) {
  std::vector<std::string> out;
  const std::vector<PolicyGoodput> policies = summarize(study);
  for (std::size_t p = 1; p < policies.size() && !study.options.slo.any(); ++p) {
    out.push_back(conclusion(policies[p], policies[0].policy, study.options.tolerance));
  }
  for (std::size_t p = 0; p < policies.size() && study.options.slo.any(); ++p) {
    if (policies[p].slo.held_seeds < study.seeds) {
      out.push_back(
          fmt::format("{} does not meet the SLO{}, not even with one request in the system: {} fails.",
                      plain_name(policies[p].policy),
                      policies[p].slo.held_seeds == 0
                          ? ""
                          : fmt::format(" under {} of {} seeds", study.seeds - policies[p].slo.held_seeds, study.seeds),
                      policies[p].slo.limit));
    }
  }
  std::ranges::move(gain_sentences(rates_of(study), false), std::back_inserter(out));
  std::ranges::move(branch_conclusions(study), std::back_inserter(out));
  if (study.same_requests && study.seeds > 1) {
    bool drawn = false;
    for (std::size_t p = 0; p < policies.size(); ++p) {
      for (const GoodputSearch& search : searches_of(study, p)) {
        drawn = drawn || search.best.fingerprint != searches_of(study, p)[0].best.fingerprint;
      }
    }
    out.push_back(drawn ? "The requests are the same under all seeds: the intervals cover the routing alone."
                        : "The runs are the same under all seeds: the intervals cover the search's resolution alone.");
  }
  if (study.seeds == 1) {
    out.push_back("One seed: there is no interval, so a difference may be chance.");
  }
  return out;
}

std::string knee_rule(const GoodputOptions& o) {
  return fmt::format(
      "Knee: the largest request rate with mean TTFT <= {:g} x the mean TTFT of requests that are alone in the system, "
      "{}; found by bisection to {:g} %, interpolated inside the last bracket (logarithm of the TTFT linear in the "
      "rate) up to what its upper end serves. Other values of k are interpolated between probes.",
      o.k,
      o.count_all ? "whatever is completed"
                  : fmt::format("completed >= {:g} x offered, and a steady state", o.min_completed),
      o.tolerance * 100);
}

std::string slo_rule(const GoodputOptions& o) {
  return fmt::format(
      "SLO: {}. The rate is the highest at which every term holds in a steady state that completes >= {:g} x offered; "
      "found by bisection to {:g} %, with as many requests as the verdict needs ({} at most, unless the number in the "
      "system asks for more), interpolated inside the last bracket.{}",
      name_of(o.slo), o.min_completed, o.tolerance * 100, grouped(static_cast<std::int64_t>(o.most_requests)),
      o.slo.per_request() ? fmt::format(" attainment: the share of requests that meet every bound without a statistic; "
                                        "{:g} is required.",
                                        o.slo.attainment)
                          : "");
}

std::string served_text(const ServedSoFar& run) {
  return fmt::format("{}, seed {}, {}: {} of {} requests", printable(run.policy), run.seed,
                     run.rate > 0 ? fmt::format("at {:.4g}/s", run.rate) : "all at once", run.completed, run.requests);
}

std::string cost_note(const LoadPoint& probe, const std::string& policy, std::size_t searches,
                      const GoodputOptions& o) {
  constexpr std::int64_t kMany = 8000;
  // Twice as many as a steady state asks for: the verdict does.
  const bool for_verdict = static_cast<double>(probe.requests) > 2 * o.min_requests_ratio * probe.outstanding;
  if (!o.slo.any() || probe.requests < kMany || !for_verdict) {
    return "";
  }
  return fmt::format(
      "{} changes so little with the rate that {} needs {} requests or more at each rate ({} at most) to settle it to "
      "{:g} %{}. A wider --tolerance, fewer --seeds or fewer policies cost less; "
      "so does --max-requests 4000, for a wider interval (docs/slo.md).",
      name_of(o.slo.terms.at(static_cast<std::size_t>(probe.slo.limit))), policy, grouped(probe.requests),
      grouped(static_cast<std::int64_t>(o.most_requests)), o.tolerance * 100,
      searches > 1 ? fmt::format(", and each of the {} searches may", searches) : "");
}

std::string measured_part_rule(const GoodputOptions& o) {
  if (o.count_all) {
    return "Measured: every request of a run from an empty system (protocol.count: all), which need not be steady; "
           "completed: over the time to the last answer.";
  }
  return fmt::format(
      "Measured: the requests without the first {:g} %, or twice as many as are in the system, and the last {:g} % by "
      "arrival. Steady: requests stay for less than is measured, and neither TTFT nor the number in the system grows "
      "from the first to the second half by more than {:g} % and by more than chance (trend against slow waves, 95 "
      "%).",
      o.warmup_share * 100, o.drain_share * 100, o.max_drift * 100);
}

std::string_view name_of(KneeLimit limit) {
  switch (limit) {
    case KneeLimit::kTtft:
      return "ttft";
    case KneeLimit::kCompleted:
      return "completed";
    case KneeLimit::kUnstable:
      return "unstable";
    case KneeLimit::kBeyond:
      return "beyond";
  }
  return "";
}

}  // namespace epsim
