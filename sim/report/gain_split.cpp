#include "sim/report/gain_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/report/format.h"
#include "sim/report/rate_verdict.h"
#include "sim/report/text_table.h"

namespace epsim {
namespace {

constexpr std::string_view kFirstPlan = ":first_plan", kKvFree = ":kv_free", kEven = ":even",
                           kEvenKvFree = ":even_kv_free", kDispatchKvFree = ":dispatch_kv_free";
constexpr const char* kOrderOfSplit = "planning again, KV room, choice of copy, copies, placement";

const RatesOf* find_rates(std::span<const RatesOf> runs, const std::string& policy) {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const RatesOf& r) { return r.policy == policy; });
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

struct Zero {
  const RatesOf &in_order, &placement;
};

GainSplit split_of(std::span<const RatesOf> runs, const RatesOf& policy, const RatesOf& free, const Zero& zero) {
  GainSplit out{policy.policy, {}, part_of("whole", policy, zero.in_order, zero.in_order), {}};
  const RatesOf* at = &policy;
  const auto switch_off = [&](const char* name, const RatesOf* next) {
    if (next != nullptr) {
      out.parts.push_back(part_of(name, *at, *next, zero.in_order));
      at = next;
    }
  };
  const RatesOf* even_free = find_rates(runs, label_of_copies_alone(policy.policy));
  const RatesOf* even = find_rates(runs, label_with_even_choice(policy.policy));
  const RatesOf* first_plan = find_rates(runs, label_without_replanning(policy.policy));
  switch_off("planning again", first_plan);
  const RatesOf& planned_once = *at;
  switch_off("KV room", &free);
  switch_off("choice of copy", even_free);
  switch_off("copies", &zero.placement);
  switch_off("placement", &zero.in_order);
  if (even != nullptr && even_free != nullptr) {
    out.interaction = interaction_of(planned_once, *even, free, *even_free, zero.in_order);
  }
  return out;
}

std::string half_of(const Estimate& e, double scale) {
  return std::isfinite(e.half_width) ? rounded(e.half_width * scale) : "-";
}

std::vector<std::string> row_of(const std::string& policy, const GainPart& part) {
  return {policy,
          part.name,
          fmt::format("{:+.4g}", part.requests_per_s.mean),
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

std::string label_without_replanning(const std::string& policy) { return policy + std::string(kFirstPlan); }
std::string label_without_kv_cost(const std::string& policy) { return policy + std::string(kKvFree); }
std::string label_with_even_choice(const std::string& policy) { return policy + std::string(kEven); }
std::string label_of_copies_alone(const std::string& policy) { return policy + std::string(kEvenKvFree); }

std::string label_of_dispatch_alone(const std::string& policy) { return policy + std::string(kDispatchKvFree); }

bool is_gain_variant(const std::string& label) {
  const std::string_view all[] = {kFirstPlan, kKvFree, kEven, kEvenKvFree, kDispatchKvFree};
  return std::any_of(std::begin(all), std::end(all), [&](std::string_view end) { return label.ends_with(end); });
}

std::vector<GainSplit> gain_splits(std::span<const RatesOf> runs) {
  std::vector<GainSplit> out;
  const RatesOf *in_order = find_plain(runs, kOffName), *placement = find_plain(runs, kPlacementName);
  for (const RatesOf& run : runs) {
    const RatesOf* free = find_rates(runs, label_without_kv_cost(run.policy));
    const RatesOf* dispatch = find_rates(runs, label_of_dispatch_alone(run.policy));
    if (in_order != nullptr && dispatch != nullptr) {
      out.push_back(
          {run.policy,
           {part_of("KV room", run, *dispatch, *in_order), part_of("dispatch", *dispatch, *in_order, *in_order)},
           part_of("whole", run, *in_order, *in_order),
           {}});
    } else if (in_order != nullptr && placement != nullptr && free != nullptr) {
      out.push_back(split_of(runs, run, *free, {*in_order, *placement}));
    }
  }
  return out;
}

std::vector<GainSplit> gain_splits(const Comparison& runs) {
  std::vector<RatesOf> rates;
  for (std::size_t p = 0; p < runs.by_policy.size(); ++p) {
    rates.push_back({runs.first_seed(p).label, by_seed(runs, p, metric("requests_per_s"))});
  }
  return gain_splits(rates);
}

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
                              "Against experts in order; switched off from the whole in this order: {}.\nRows "
                              "above with a colon are the variants that this takes; of these no deployment can "
                              "have those that end in kv_free.\n",
                              kOrderOfSplit);
}

std::vector<std::string> gain_split_sentences(std::span<const GainSplit> splits) {
  std::vector<std::string> out;
  for (const GainSplit& split : splits) {
    std::string text;
    for (auto part = split.parts.rbegin(); part != split.parts.rend(); ++part) {
      text += fmt::format("{}{} {:+.4g} requests/s ({} %)", text.empty() ? "" : ", ", part->name,
                          part->requests_per_s.mean, signed_percent(part->share.mean));
    }
    out.push_back(fmt::format("{} against experts in order: {}; together {:+.4g} ({} %). Switched off in the order {}.",
                              split.policy, text, split.whole.requests_per_s.mean,
                              signed_percent(split.whole.share.mean), kOrderOfSplit));
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
