#include "sim/report/gain_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/report/format.h"
#include "sim/report/rate_verdict.h"
#include "sim/report/text_table.h"
#include "sim/scenario/compared_policies.h"

namespace epsim {
namespace {

constexpr const char* kOrderOfSplit = "planning again, KV room, dispatch, choice of copy, copies, placement";

constexpr double kWorthTelling = 0.01;

const RatesOf* find_variant(std::span<const RatesOf> runs, const std::string& policy, const char* variant) {
  const std::string label = fmt::format("{}:{}", policy, variant);
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const RatesOf& r) { return r.policy == label; });
  return found == runs.end() ? nullptr : &*found;
}

// What plain_name() calls the zero, and placement without copies.
constexpr std::string_view kOffName = "load balancing off", kPlacementName = "placement alone";

const RatesOf* find_plain(std::span<const RatesOf> runs, std::string_view name) {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [&](const RatesOf& r) { return plain_name(r.policy) == name; });
  return found == runs.end() ? nullptr : &*found;
}

// on - off by seed.
GainPart part_of(const std::string& name, const RatesOf& on, const RatesOf& off, const RatesOf& zero) {
  std::vector<double> rates, shares;
  for (std::size_t s = 0; s < on.by_seed.size(); ++s) {
    rates.push_back(on.by_seed[s] - off.by_seed[s]);
    shares.push_back(ratio(rates.back(), zero.by_seed[s]));
  }
  return {name, estimate(rates), estimate(shares)};
}

// (a - b) - (c - d), as a part.
GainPart interaction_of(const RatesOf& a, const RatesOf& b, const RatesOf& c, const RatesOf& d, const RatesOf& zero) {
  RatesOf together{"", {}}, apart{"", {}};
  for (std::size_t s = 0; s < a.by_seed.size(); ++s) {
    together.by_seed.push_back(a.by_seed[s] - b.by_seed[s]);
    apart.by_seed.push_back(c.by_seed[s] - d.by_seed[s]);
  }
  return part_of("choice x KV room", together, apart, zero);
}

GainSplit split_of(std::span<const RatesOf> runs, const RatesOf& policy, const RatesOf& in_order,
                   const RatesOf* placement) {
  const auto variant = [&](const char* name) { return find_variant(runs, policy.policy, name); };
  const RatesOf *first_plan = variant("first_plan"), *dispatch = variant("dispatch_kv_free"),
                *home = variant("home_kv_free"), *free = dispatch != nullptr ? dispatch : variant("kv_free"),
                *even = variant("even"), *even_free = variant("even_kv_free");
  GainSplit out{policy.policy, {}, part_of("whole", policy, in_order, in_order), {}};
  const RatesOf* at = &policy;
  const auto switch_off = [&](const char* name, const RatesOf* next) {
    if (next != nullptr) {
      out.parts.push_back(part_of(name, *at, *next, in_order));
      at = next;
    }
  };
  switch_off("planning again", first_plan);
  const RatesOf& planned_once = *at;
  switch_off("KV room", free);
  if (dispatch != nullptr) {
    switch_off("dispatch", home != nullptr ? home : &in_order);
  }
  switch_off("choice of copy", even_free);
  if (at != &in_order) {
    switch_off("copies", placement);
    switch_off("placement", &in_order);
  }
  if (even != nullptr && even_free != nullptr) {
    out.interaction = interaction_of(planned_once, *even, *free, *even_free, in_order);
  }
  return out;
}

std::string placement_sentence(std::span<const RatesOf> runs, bool intervals) {
  const RatesOf *in_order = find_plain(runs, kOffName), *placement = find_plain(runs, kPlacementName);
  if (in_order == nullptr || placement == nullptr) {
    return "";
  }
  const auto text = [&](const RatesOf& on, const RatesOf& off, const char* unit) {
    const Estimate share = part_of("", on, off, *in_order).share;
    return signed_percent(share.mean) +
           (intervals && std::isfinite(share.half_width) ? fmt::format(" +- {}", percent(share.half_width)) : "") +
           unit;
  };
  std::string out =
      fmt::format("Requests/s against load balancing off: placement alone {}", text(*placement, *in_order, " %"));
  bool any = false;
  for (const RatesOf& run : runs) {
    any = any || !(std::abs(part_of("", run, *in_order, *in_order).share.mean) <= kWorthTelling);
    if (plain_name(run.policy) == run.policy && !is_gain_variant(run.policy)) {
      out += fmt::format("; {} {}, which is {} beyond placement alone", run.policy, text(run, *in_order, " %"),
                         text(run, *placement, " points"));
    }
  }
  return any ? out + "." : "";
}

// "+0.7900"; "0" where the share is shown as 0.0 %.
std::string rate_text(const GainPart& part) {
  return std::abs(part.share.mean) < 5e-4 ? "0" : fmt::format("{:+#.4g}", part.requests_per_s.mean);
}

std::string split_sentence(const GainSplit& split) {
  std::string text;
  for (auto part = split.parts.rbegin(); part != split.parts.rend(); ++part) {
    text += fmt::format("{}{} {} requests/s ({} %)", text.empty() ? "" : ", ", part->name, rate_text(*part),
                        signed_percent(part->share.mean));
  }
  return fmt::format("{} against experts in order: {}; together {} ({} %). Switched off in the order {}.", split.policy,
                     text, rate_text(split.whole), signed_percent(split.whole.share.mean), kOrderOfSplit);
}

std::string half_of(const Estimate& e, double scale) {
  return std::isfinite(e.half_width) ? rounded(e.half_width * scale) : "-";
}

std::vector<std::string> row_of(const std::string& policy, const GainPart& part) {
  return {policy,
          part.name,
          rate_text(part),
          half_of(part.requests_per_s, 1),
          signed_percent(part.share.mean),
          half_of(part.share, 100)};
}

nlohmann::ordered_json split_interval(const Estimate& e) {
  return {{"mean", e.mean},
          {"half_width", std::isfinite(e.half_width) ? nlohmann::ordered_json(e.half_width) : nullptr}};
}

nlohmann::ordered_json part_json(const GainPart& part) {
  return {{"part", part.name},
          {"requests_per_s", split_interval(part.requests_per_s)},
          {"share", split_interval(part.share)}};
}

}  // namespace

bool is_gain_variant(const std::string& label) { return as_variant(label).has_value(); }

std::vector<GainSplit> gain_splits(std::span<const RatesOf> runs) {
  std::vector<GainSplit> out;
  const RatesOf *in_order = find_plain(runs, kOffName), *placement = find_plain(runs, kPlacementName);
  for (const RatesOf& run : runs) {
    const bool per_step = find_variant(runs, run.policy, "dispatch_kv_free") != nullptr,
               from_order = per_step && find_variant(runs, run.policy, "home_kv_free") == nullptr;
    if (in_order != nullptr && (from_order || placement != nullptr) &&
        (per_step || find_variant(runs, run.policy, "kv_free") != nullptr)) {
      out.push_back(split_of(runs, run, *in_order, placement));
    }
  }
  return out;
}

std::vector<RatesOf> rates_of(const Comparison& runs) {
  std::vector<RatesOf> out;
  for (std::size_t p = 0; p < runs.by_policy.size(); ++p) {
    out.push_back({runs.first_seed(p).label, by_seed(runs, p, metric("requests_per_s"))});
  }
  return out;
}

std::vector<GainSplit> gain_splits(const Comparison& runs) { return gain_splits(rates_of(runs)); }

std::string gain_split_table(std::span<const GainSplit> splits) {
  if (splits.empty()) {
    return "";
  }
  TextTable table;
  table.add_column({"whose gain:", "policy"}, Align::kLeft);
  table.add_column({"", "part"}, Align::kLeft);
  table.add_column({"", "req/s"});
  table.add_column({"95 %", "+-"});
  table.add_column({"of off", "%"});
  table.add_column({"95 %", "+-"});
  for (const GainSplit& split : splits) {
    std::string name = shortened(printable(split.policy), 24);
    for (auto part = split.parts.rbegin(); part != split.parts.rend(); ++part) {
      table.add_row(row_of(std::exchange(name, ""), *part));
    }
    table.add_row(row_of("", split.whole));
    if (!split.interaction.name.empty()) {
      table.add_row(row_of("", split.interaction));
    }
  }
  return table.render() + fmt::format(
                              "Against experts in order; switched off from the whole in this order: {}.\nVariants "
                              "(policy:variant) give these parts; no deployment can have those that end in kv_free.\n",
                              kOrderOfSplit);
}

std::vector<std::string> gain_sentences(std::span<const RatesOf> runs, bool intervals) {
  const std::vector<GainSplit> splits = gain_splits(runs);
  std::vector<std::string> out;
  std::transform(splits.begin(), splits.end(), std::back_inserter(out), split_sentence);
  if (const std::string placement = placement_sentence(runs, intervals); splits.empty() && !placement.empty()) {
    out.push_back(placement);
  }
  return out;
}

nlohmann::ordered_json gain_split_json(std::span<const GainSplit> splits) {
  auto out = nlohmann::ordered_json::array();
  for (const GainSplit& split : splits) {
    nlohmann::ordered_json row{{"policy", split.policy}, {"parts", nlohmann::ordered_json::array()}};
    for (const GainPart& part : split.parts) {
      row["parts"].push_back(part_json(part));
    }
    row["whole"] = part_json(split.whole);
    row["interaction"] = split.interaction.name.empty() ? nlohmann::ordered_json() : part_json(split.interaction);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace epsim
