#include "sim/report/gain_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/core/mapped.h"
#include "sim/report/format.h"
#include "sim/report/rate_verdict.h"
#include "sim/report/text_table.h"
#include "sim/scenario/compared_policies.h"

namespace epsim {
namespace {

constexpr const char* kOrderOfSplit = "planning again, KV room, steps, choice of copy, copies, placement";

constexpr double kWorthTelling = 0.01;

const RateChoice* find_variant(std::span<const RateChoice> runs, const std::string& policy, const char* variant) {
  const std::string label = fmt::format("{}:{}", policy, variant);
  const auto found = std::ranges::find(runs, label, &RateChoice::name);
  return found == runs.end() ? nullptr : &*found;
}

// What plain_name() calls the zero, and placement without copies.
constexpr std::string_view kOffName = "load balancing off", kPlacementName = "placement alone";

const RateChoice* find_plain(std::span<const RateChoice> runs, std::string_view name) {
  const auto found =
      std::find_if(runs.begin(), runs.end(), [&](const RateChoice& r) { return plain_name(r.name) == name; });
  return found == runs.end() ? nullptr : &*found;
}

// on - off by seed.
GainPart part_of(const std::string& name, const RateChoice& on, const RateChoice& off, const RateChoice& zero) {
  const std::vector<double> rates = differences(on.by_seed, off.by_seed);
  return {name, estimate(rates), estimate(ratios(rates, zero.by_seed))};
}

// (a - b) - (c - d), as a part.
GainPart interaction_of(const RateChoice& a, const RateChoice& b, const RateChoice& c, const RateChoice& d,
                        const RateChoice& zero) {
  return part_of("choice x KV room", {"", differences(a.by_seed, b.by_seed)}, {"", differences(c.by_seed, d.by_seed)},
                 zero);
}

GainSplit split_of(std::span<const RateChoice> runs, const RateChoice& policy, const RateChoice& in_order,
                   const RateChoice* placement) {
  const auto variant = [&](const char* name) { return find_variant(runs, policy.name, name); };
  const RateChoice *first_plan = variant("first_plan"), *dispatch = variant("dispatch_kv_free"),
                   *home = variant("home_kv_free"), *free = dispatch != nullptr ? dispatch : variant("kv_free"),
                   *even = variant("even"), *even_free = variant("even_kv_free");
  GainSplit out{policy.name, {}, part_of("whole", policy, in_order, in_order), {}};
  const RateChoice* at = &policy;
  const auto switch_off = [&](const char* name, const RateChoice* next) {
    if (next != nullptr) {
      out.parts.push_back(part_of(name, *at, *next, in_order));
      at = next;
    }
  };
  switch_off("planning again", first_plan);
  const RateChoice& planned_once = *at;
  switch_off("KV room", free);
  if (dispatch != nullptr) {
    switch_off("steps", home != nullptr ? home : &in_order);
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

std::string placement_sentence(std::span<const RateChoice> runs, bool intervals) {
  const RateChoice *in_order = find_plain(runs, kOffName), *placement = find_plain(runs, kPlacementName);
  if (in_order == nullptr || placement == nullptr) {
    return "";
  }
  const auto text = [&](const RateChoice& on, const RateChoice& off, const char* unit) {
    const Estimate share = part_of("", on, off, *in_order).share;
    return signed_percent(share.mean) +
           (intervals && std::isfinite(share.half_width) ? fmt::format(" +- {}", percent(share.half_width)) : "") +
           unit;
  };
  std::string out =
      fmt::format("Requests/s against load balancing off: placement alone {}", text(*placement, *in_order, " %"));
  bool any = false;
  for (const RateChoice& run : runs) {
    any = any || !(std::abs(part_of("", run, *in_order, *in_order).share.mean) <= kWorthTelling);
    if (plain_name(run.name) == run.name && !is_gain_variant(run.name)) {
      out += fmt::format("; {} {}, which is {} beyond placement alone", run.name, text(run, *in_order, " %"),
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

std::vector<std::string> row_of(const std::string& policy, const GainPart& part) {
  return {policy,
          part.name,
          rate_text(part),
          rounded(part.requests_per_s.half_width),
          signed_percent(part.share.mean),
          rounded(part.share.half_width * 100)};
}

nlohmann::ordered_json part_json(const GainPart& part) {
  return {{"part", part.name}, {"requests_per_s", json_of(part.requests_per_s)}, {"share", json_of(part.share)}};
}

}  // namespace

bool is_gain_variant(const std::string& label) { return as_variant(label).has_value(); }

std::vector<GainSplit> gain_splits(std::span<const RateChoice> runs) {
  std::vector<GainSplit> out;
  const RateChoice *in_order = find_plain(runs, kOffName), *placement = find_plain(runs, kPlacementName);
  for (const RateChoice& run : runs) {
    const bool per_step = find_variant(runs, run.name, "dispatch_kv_free") != nullptr,
               from_order = per_step && find_variant(runs, run.name, "home_kv_free") == nullptr;
    if (in_order != nullptr && (from_order || placement != nullptr) &&
        (per_step || find_variant(runs, run.name, "kv_free") != nullptr)) {
      out.push_back(split_of(runs, run, *in_order, placement));
    }
  }
  return out;
}

std::vector<RateChoice> rates_of(const Comparison& runs) {
  std::vector<RateChoice> out;
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
  table.add_columns({{"whose gain:", "policy"}, {"", "part"}}, Align::kLeft);
  table.add_columns({{"", "req/s"}, {"95 %", "+-"}, {"of off", "%"}, {"95 %", "+-"}});
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

std::vector<std::string> gain_sentences(std::span<const RateChoice> runs, bool intervals) {
  const std::vector<GainSplit> splits = gain_splits(runs);
  std::vector<std::string> out = mapped(splits, split_sentence);
  if (const std::string placement = placement_sentence(runs, intervals); splits.empty() && !placement.empty()) {
    out.push_back(placement);
  }
  return out;
}

nlohmann::ordered_json gain_split_json(std::span<const GainSplit> splits) {
  return mapped(splits, [](const GainSplit& split) {
    return nlohmann::ordered_json{
        {"policy", split.policy},
        {"parts", mapped(split.parts, part_json)},
        {"whole", part_json(split.whole)},
        {"interaction", split.interaction.name.empty() ? nlohmann::ordered_json() : part_json(split.interaction)}};
  });
}

}  // namespace epsim
