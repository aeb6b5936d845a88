#include "sim/report/rate_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/report/format.h"

namespace epsim {
namespace {

double mean_of(const RateChoice& choice) { return estimate(choice.by_seed).mean; }

// Of policies other than the first, which is as good as which: one seed's rates within the tolerance are equal.
int side(const RateChoice& choice, const RateChoice& other, const RateQuestion& question) {
  return side_of_one(ratio_of(choice, other, question), question.tolerance);
}

bool beats(const RateChoice& choice, const RateChoice& first, const RateQuestion& question) {
  return side_of_one(ratio_of(choice, first, question), kOneSeed * question.tolerance) > 0;
}

std::string change_words(const Estimate& e) {
  const double change = (e.mean - 1) * 100;
  return fmt::format("{:.1f} % {}", std::abs(change), change < 0 ? "less" : "more");
}

std::string interval_text(const Estimate& e, std::size_t seeds, const RateQuestion& question) {
  return std::isfinite(e.half_width) ? fmt::format("95 % interval {:+.1f} to {:+.1f} %, {} seeds", (e.low() - 1) * 100,
                                                   (e.high() - 1) * 100, seeds)
                                     : fmt::format("one seed: {} shows how sure this is", question.more_seeds);
}

std::string kv_text(double share) {
  return share > 0.0005 ? fmt::format("for {} % of the KV room", percent(share)) : "at no cost in KV room";
}

// The choices for which `wanted` holds, the highest rate first; equal ones as they were given.
template <class Wanted>
std::vector<std::size_t> ranked(std::span<const RateChoice> choices, Wanted wanted) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (wanted(choices[i])) {
      out.push_back(i);
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return mean_of(choices[a]) > mean_of(choices[b]); });
  return out;
}

// The others that are as good as the chosen one.
std::string as_good_as(std::span<const RateChoice> choices, std::size_t chosen, const RateQuestion& question) {
  std::string out;
  for (std::size_t i = 1; i < choices.size(); ++i) {
    if (i != chosen && side(choices[i], choices[chosen], question) == 0) {
      out += fmt::format("{}{} ({} % of the KV room)", out.empty() ? "; no difference to " : ", ", choices[i].name,
                         percent(choices[i].kv_lost_share));
    }
  }
  return out;
}

// Everyone's difference to the first.
std::string differences(std::span<const RateChoice> choices, const RateQuestion& question) {
  std::string out;
  for (const RateChoice& choice : choices.subspan(1)) {
    const Estimate ratio = ratio_of(choice, choices[0], question);
    out += fmt::format("{}{}: {}{} ({})", out.empty() ? "" : "; ", choice.name,
                       side_of_one(ratio, kOneSeed * question.tolerance) < 0 ? "" : "no difference, ",
                       change_words(ratio), interval_text(ratio, choice.by_seed.size(), question));
  }
  return out;
}

// Where the first choice sustains no rate at all.
RateVerdict without_first(std::span<const RateChoice> choices, const RateQuestion& question) {
  const auto held = std::max_element(choices.begin(), choices.end(),
                                     [](const RateChoice& a, const RateChoice& b) { return mean_of(a) < mean_of(b); });
  if (!(mean_of(*held) > 0)) {
    return {
        0, false,
        fmt::format("No policy meets the SLO, not even with one request in the system: {} fails.", choices[0].limit)};
  }
  const auto chosen = static_cast<std::size_t>(held - choices.begin());
  return {chosen, true,
          fmt::format("Use {}: it sustains {} requests/s {}, {}{}; {} does not meet it, not even with one request in "
                      "the system ({} fails).",
                      held->name, rounded(mean_of(*held)), question.condition, kv_text(held->kv_lost_share),
                      as_good_as(choices, chosen, question), choices[0].name, choices[0].limit)};
}

// The fastest choice that is better than the first, or of those as good the one that takes least KV room, and of equal
// room the one given first; the first choice where none is better.
std::size_t best_of(std::span<const RateChoice> choices, const RateQuestion& question) {
  const std::vector<std::size_t> better =
      ranked(choices, [&](const RateChoice& choice) { return beats(choice, choices[0], question); });
  std::size_t out = better.empty() ? 0 : better[0];
  for (const std::size_t i : better) {
    const bool as_good = side(choices[better[0]], choices[i], question) <= 0;
    if (as_good && std::pair(choices[i].kv_lost_share, i) < std::pair(choices[out].kv_lost_share, out)) {
      out = i;
    }
  }
  return out;
}

}  // namespace

std::string plain_name(const std::string& policy) {
  return policy == "contiguous" ? "load balancing off" : policy == "base" ? "placement alone" : policy;
}

Estimate ratio_of(const RateChoice& choice, const RateChoice& other, const RateQuestion& question) {
  return searched_estimate(ratios(choice.by_seed, other.by_seed), question.tolerance, 2);
}

int side_of_one(const Estimate& ratio, double one_seed) {
  const double margin = std::isfinite(ratio.half_width) ? ratio.half_width : one_seed;
  return ratio.mean - margin > 1 ? 1 : ratio.mean + margin < 1 ? -1 : 0;
}

RateVerdict verdict_against_first(std::span<const RateChoice> choices, const RateQuestion& question) {
  if (!(mean_of(choices[0]) > 0)) {
    return without_first(choices, question);
  }
  const std::size_t chosen = best_of(choices, question);
  const RateChoice& best = choices[chosen];
  const std::string rate = fmt::format("{} requests/s {}", rounded(mean_of(best)), question.condition);
  if (choices.size() == 1) {
    return {0, false, fmt::format("It sustains {}.", rate)};  // the one policy, which a dense model does not choose
  }
  if (chosen == 0) {
    return {0, false,
            fmt::format("Keep {}: it sustains {}, and nothing is shown to sustain more ({}).", best.name, rate,
                        differences(choices, question))};
  }
  const Estimate ratio = ratio_of(best, choices[0], question);
  return {chosen, true,
          fmt::format("Use {}: it sustains {}, {} than {} ({}), {}{}.", best.name, rate, change_words(ratio),
                      choices[0].name, interval_text(ratio, best.by_seed.size(), question), kv_text(best.kv_lost_share),
                      as_good_as(choices, chosen, question))};
}

RateVerdict verdict_against_next(std::span<const RateChoice> choices, const RateQuestion& question) {
  const auto all = [](const RateChoice& choice, auto holds) {
    return std::all_of(choice.by_seed.begin(), choice.by_seed.end(), holds);
  };
  const auto searched = std::count_if(choices.begin(), choices.end(), [&](const RateChoice& choice) {
    return all(choice, [](double rate) { return std::isfinite(rate); });
  });
  const std::vector<std::size_t> held =
      ranked(choices, [&](const RateChoice& choice) { return all(choice, [](double rate) { return rate > 0; }); });
  if (searched < 2) {
    return {};
  }
  if (held.empty()) {
    return {0, false, fmt::format("No combination sustains any rate {} under every seed.", question.condition)};
  }
  const RateChoice& best = choices[held[0]];
  const std::string rate = rounded(mean_of(best));
  if (held.size() == 1) {
    return {held[0], true,
            fmt::format("Only {} sustains a rate {} under every seed: {} requests/s.", best.name, question.condition,
                        rate)};
  }
  const RateChoice& next = choices[held[1]];
  const Estimate ratio = ratio_of(best, next, question);
  const bool told = side_of_one(ratio, kOneSeed * question.tolerance) > 0;
  return {held[0], told,
          fmt::format("Highest rate {}: {} requests/s with {}; {} the next, {} ({}).", question.condition, rate,
                      best.name, told ? change_words(ratio) + " than" : "no sure difference to", next.name,
                      interval_text(ratio, best.by_seed.size(), question))};
}

}  // namespace epsim
