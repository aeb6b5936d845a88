#include "sim/report/diagnosis_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/report/format.h"

namespace epsim {
namespace {

constexpr double kLasts = 0.9;  // of what a plan balances at first, for it to count as lasting
constexpr double kTells = 0.5;  // of a plan's gain, on another draw of the same window: less is more noise than gain
constexpr std::size_t kWidth = 110, kLabel = 11;

// rates / others - 1 by seed; of `rates` a share `time_share` is lost to rebalances, of `others` the other.
Estimate gain_over(const std::vector<double>& rates, const std::vector<double>& others, double lost = 0,
                   double others_lost = 0) {
  std::vector<double> by_seed;
  for (std::size_t s = 0; s < rates.size(); ++s) {
    by_seed.push_back(rates[s] * (1 - lost) / (others[s] * (1 - others_lost)) - 1);
  }
  return estimate(by_seed);
}

// An interval of one seed is not known, and holds everything.
double low_of(const Estimate& e) { return std::isnan(e.half_width) ? -INFINITY : e.low(); }
double high_of(const Estimate& e) { return std::isnan(e.half_width) ? INFINITY : e.high(); }

std::string gain_words(const Estimate& gain) {
  return std::isnan(gain.half_width) ? fmt::format("{} % (one seed)", signed_percent(gain.mean))
                                     : fmt::format("{} % ({} to {})", signed_percent(gain.mean),
                                                   signed_percent(gain.low()), signed_percent(gain.high()));
}

std::string skew_text(const Diagnosis& d) {
  return fmt::format(
      "with experts in order the busiest GPU has {:.2f} times the mean load (layer {}: {:.2f}); the "
      "hottest expert {:.1f} times (layer {}: {:.1f})",
      d.imbalance, d.worst_layer, d.worst_imbalance, d.hottest_expert, d.worst_expert_layer, d.worst_hottest_expert);
}

// What plans made from such windows bring tells nothing of those made from longer ones.
bool too_short(const Diagnosis& d) { return !d.kept.empty() && d.windows > 1 && d.repeats < kTells; }

std::string stability_text(const Diagnosis& d) {
  if (d.kept.empty()) {
    return "nothing to keep: experts in order are as balanced as a plan makes them";
  }
  if (d.windows == 1) {
    return "unknown from one window; give a later recording as the second file";
  }
  if (too_short(d)) {
    return fmt::format(
        "windows of {:.0f} tokens are too short to tell: on other tokens of the same window a plan keeps "
        "{:.0f} % of its gain in balance; record longer windows",
        d.window_tokens, d.repeats * 100);
  }
  std::size_t lasts = 0;
  while (lasts + 1 < d.kept.size() && d.kept[lasts + 1] >= kLasts) {
    ++lasts;
  }
  std::string out =
      fmt::format("one window later a plan brings {:.0f} % of a new one's gain in balance", d.kept[1] * 100);
  if (d.kept.size() > 2) {
    out += fmt::format(", {:.0f} % {} windows later", d.kept.back() * 100, d.kept.size() - 1);
  }
  return out + (lasts == 0                   ? "; plan again more often than once a window"
                : lasts + 1 == d.kept.size() ? fmt::format("; {} windows do not show longer", d.windows)
                                             : fmt::format("; it lasts for {} of {} windows", lasts, d.windows));
}

std::string gain_text(const Diagnosis& d, const BalanceVerdict& v) {
  return fmt::format(
      "requests/s in saturation, 95 % interval: placement alone {}; {} copies a layer on top {}; perfect "
      "balance of every batch, a bound, {}",
      gain_words(v.placement), d.copies_per_layer, gain_words(v.added), gain_words(v.perfect));
}

std::string cost_text(const Diagnosis& d) {
  const RebalancePrice& move = d.move_copies;
  return fmt::format(
      "copies take {} % of the KV room; {} moves {} GiB and stops serving for {} s, {} % of the time at "
      "every {:.0f} steps ({} GiB, {} % without copies)",
      percent(d.kv_lost_share), d.scored_later ? "a rebalance" : "turning it on", rounded(to_gib(move.moved)),
      rounded(move.pause.count()), percent(d.time_share_of(move)), kStepsBetweenRebalances,
      rounded(to_gib(d.move_placement.moved)), percent(d.time_share_of(d.move_placement)));
}

std::string line_of(const std::string& label, const std::string& text) {
  return fmt::format("{:<{}}{}\n", label, kLabel, wrapped(text, kWidth, kLabel, kLabel));
}

BalanceAnswer answer_of(const Diagnosis& d, const BalanceVerdict& v, double worth) {
  const Estimate& net = v.net;
  if (too_short(d) && high_of(v.perfect) >= worth) {
    return BalanceAnswer::kUnsure;
  }
  if (high_of(net) < worth) {
    return BalanceAnswer::kOff;
  }
  return d.scored_later && low_of(net) > worth ? BalanceAnswer::kOn : BalanceAnswer::kUnsure;
}

std::string answer_text(const Diagnosis& d, const BalanceVerdict& v, double worth) {
  const std::string what =
      v.with_copies ? fmt::format("with {} copies a layer", d.copies_per_layer) : "with 0 copies (placement alone)";
  const std::size_t seeds = d.in_order.size();
  const std::string gain = fmt::format("{} after what rebalancing costs{}", gain_words(v.net),
                                       seeds > 1 ? fmt::format(", {} seeds", seeds) : "");  // one: gain_words() says so
  switch (v.answer) {
    case BalanceAnswer::kOn:
      return fmt::format("ON, {}: {}{}", what, gain, v.with_copies ? "" : "; copies do not add to that for certain");
    case BalanceAnswer::kOff:
      return fmt::format("OFF: EPLB at best, {}, brings {}; {} % would be worth it", what, gain, percent(worth));
    case BalanceAnswer::kUnsure:
      if (too_short(d)) {
        return fmt::format(
            "UNSURE: EPLB {} brings {}, by a plan made from windows too short to tell; record longer ones", what, gain);
      }
      return low_of(v.net) > worth
                 ? fmt::format(
                       "UNSURE: EPLB {} brings {}, but the plan is scored on the counts that it was made from; give a "
                       "later recording",
                       what, gain)
                 : fmt::format(
                       "UNSURE: EPLB {} brings {}, which may be more or less than the {} % that are worth it; record "
                       "more, or add --seeds",
                       what, gain, percent(worth));
  }
  return "";
}

nlohmann::ordered_json move_json(const Diagnosis& d, const RebalancePrice& p) {
  return {{"moved_gib", to_gib(p.moved)}, {"pause_s", p.pause.count()}, {"time_share", d.time_share_of(p)}};
}

}  // namespace

std::string_view name_of(BalanceAnswer answer) {
  return answer == BalanceAnswer::kOn ? "ON" : answer == BalanceAnswer::kOff ? "OFF" : "UNSURE";
}

BalanceVerdict verdict_of(const Diagnosis& d, double worth) {
  BalanceVerdict out;
  out.placement = gain_over(d.placement, d.in_order);
  out.copies = gain_over(d.copies, d.in_order);
  out.added = gain_over(d.copies, d.placement);
  out.perfect = gain_over(d.perfect, d.in_order);
  const double lost = d.time_share_of(d.move_placement), lost_with_copies = d.time_share_of(d.move_copies);
  const Estimate more = gain_over(d.copies, d.placement, lost_with_copies, lost);
  out.with_copies = (std::isnan(more.half_width) ? more.mean : more.low()) > 0;  // of one seed unsure either way
  out.net =
      out.with_copies ? gain_over(d.copies, d.in_order, lost_with_copies) : gain_over(d.placement, d.in_order, lost);
  out.answer = answer_of(d, out, worth);
  out.text = answer_text(d, out, worth);
  return out;
}

std::string diagnosis_lines(const Diagnosis& d, const BalanceVerdict& v) {
  return line_of("skew", skew_text(d)) + line_of("stability", stability_text(d)) + line_of("gain", gain_text(d, v)) +
         line_of("cost", cost_text(d)) + line_of("answer", v.text);
}

std::string diagnosis_json(const Diagnosis& d, const BalanceVerdict& v) {
  const nlohmann::ordered_json out{
      {"format", 1},
      {"answer", std::string(name_of(v.answer))},
      {"text", v.text},
      {"skew",
       {{"imbalance_mean", d.imbalance},
        {"imbalance_worst", d.worst_imbalance},
        {"worst_layer", d.worst_layer},
        {"hottest_expert_over_mean", d.hottest_expert},
        {"hottest_expert_over_mean_worst", d.worst_hottest_expert},
        {"hottest_expert_worst_layer", d.worst_expert_layer}}},
      {"stability",
       {{"windows", d.windows},
        {"scored_later", d.scored_later},
        {"kept_by_age", d.kept},
        {"window_tokens", d.window_tokens},
        {"repeats_share", d.repeats}}},
      {"gain_share",
       {{"placement", json_of(v.placement)},
        {"copies", json_of(v.copies)},
        {"copies_over_placement", json_of(v.added)},
        {"perfect_balance", json_of(v.perfect)},
        {"advised_after_rebalancing", json_of(v.net)}}},
      {"requests_per_s",
       {{"in_order", d.in_order}, {"placement", d.placement}, {"copies", d.copies}, {"perfect_balance", d.perfect}}},
      {"cost",
       {{"copies_per_layer", d.copies_per_layer},
        {"kv_lost_share", d.kv_lost_share},
        {"rebalance_placement", move_json(d, d.move_placement)},
        {"rebalance_copies", move_json(d, d.move_copies)}}}};
  return out.dump(2) + "\n";
}

}  // namespace epsim
