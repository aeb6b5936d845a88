#include "sim/verbs/sweep_winners.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/core/mapped.h"
#include "sim/report/gain_split.h"
#include "sim/report/rate_verdict.h"
#include "sim/scenario/compared_policies.h"

namespace epsim {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The number of columns where there is none.
std::size_t column_of(const ResultTable& results, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(results.columns, name, &ResultColumn::name) -
                                  results.columns.begin());
}

std::size_t searched_rate(const ResultTable& results) {
  return std::min(column_of(results, kSearchedRates[0]), column_of(results, kSearchedRates[1]));
}

// What a row varies, but for the seed: "cluster.nodes=8, base".
std::string place_of(const SweepRequest& request, const ResultTable& results, const std::vector<Cell>& row) {
  std::string out;
  for (std::size_t a = 0; a < request.axes.size() + (request.policies.empty() ? 0 : 1); ++a) {
    const std::string& name = results.columns[1 + a].name;
    if (name != "seed") {
      out += (out.empty() ? "" : ", ") + (name == "policy" ? "" : name + "=") + text_of(row[1 + a]);
    }
  }
  return printable(out);
}

bool is_measured(const RateChoice& choice) {
  return std::ranges::all_of(choice.by_seed, [](double rate) { return std::isfinite(rate); });
}

bool any_choice(const WinnerMap& map) {
  return std::ranges::any_of(map.cells, [](const WinnerCell& cell) { return !cell.choices.empty(); });
}

// A choice failed where some seed has no rate of it.
void set_failed_apart(WinnerCell& cell) {
  std::erase_if(cell.choices, [&](const RateChoice& choice) {
    if (!is_measured(choice)) {
      cell.failed.push_back(choice.name);
    }
    return !is_measured(choice);
  });
}

}  // namespace

std::string best_place(const SweepRequest& request, const ResultTable& results) {
  const std::size_t rate = searched_rate(results);
  if (request.measure == SweepMeasure::kRun || rate == results.columns.size()) {
    return "";
  }
  const std::vector<std::string> left_out = not_for_use(request);
  std::vector<RateChoice> choices;  // seeds in the order of the points
  for (std::size_t r = 0; r < results.rows.size(); ++r) {
    if (!request.policies.empty() && contains(left_out, request.policies[r % request.policies.size()])) {
      continue;
    }
    const std::string place = place_of(request, results, results.rows[r]);
    auto at = std::ranges::find(choices, place, &RateChoice::name);
    at = at != choices.end() ? at : choices.insert(at, RateChoice{place});
    at->by_seed.push_back(number_of(results.rows[r][rate]));
  }
  const bool slo = results.columns[rate].name == kSearchedRates[0];
  const std::string verdict = verdict_against_next(choices, {slo ? "within the SLO" : "at the knee",
                                                             request.goodput.tolerance, "--vary seed=1,2,3"})
                                  .text;
  const auto measured = std::ranges::count_if(choices, is_measured);
  return verdict.empty() || measured == std::ssize(choices)
             ? verdict
             : fmt::format("{} Of {} combinations {} failed and are not compared (column error of results.csv).",
                           verdict, choices.size(), std::ssize(choices) - measured);
}

std::optional<WinnerMap> rates_by_place(const SweepRequest& request, const ResultTable& results) {
  WinnerMap out{{}, {}, {"", request.measure == SweepMeasure::kRun ? 0.0 : request.goodput.tolerance, ""}};
  std::vector<std::size_t> axes;
  for (std::size_t a = 0; a < request.axes.size(); ++a) {
    if (request.axes[a].key != "seed") {
      axes.push_back(1 + a);
      out.axes.push_back(request.axes[a].key);
    }
  }
  const std::size_t rate = request.measure == SweepMeasure::kRun ? column_of(results, "requests_per_s")
                                                                 : searched_rate(results),
                    room = column_of(results, "kv_lost_to_copies_share");
  if (request.policies.size() < 2 || rate == results.columns.size()) {
    return std::nullopt;
  }
  std::map<std::vector<std::string>, std::size_t> cell_of;
  for (std::size_t r = 0; r < results.rows.size(); ++r) {
    const std::vector<Cell>& row = results.rows[r];
    const std::vector<std::string> place = mapped(axes, [&](std::size_t a) { return text_of(row[a]); });
    const auto [known, added] = cell_of.try_emplace(place, out.cells.size());
    if (added) {
      out.cells.push_back(
          {place, mapped(request.policies, [](const std::string& policy) { return RateChoice{policy}; })});
    }
    RateChoice& choice = out.cells[known->second].choices[r % request.policies.size()];
    choice.by_seed.push_back(number_of(row[rate]));
    choice.kv_lost_share = room < row.size() ? number_of(row[room]) : 0.0;
  }
  std::ranges::for_each(out.cells, set_failed_apart);
  return any_choice(out) ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<WinnerMap> winners_of(WinnerMap rates, const std::vector<std::string>& left_out) {
  for (WinnerCell& cell : rates.cells) {
    std::erase_if(cell.choices, [&](const RateChoice& choice) { return contains(left_out, choice.name); });
    std::erase_if(cell.failed, [&](const std::string& name) { return contains(left_out, name); });
    // The first is what others have to gain over: contiguous or base where one was run, whatever the order given.
    if (!cell.choices.empty() && !is_reference(cell.choices.front().name)) {
      std::stable_partition(cell.choices.begin(), cell.choices.end(),
                            [](const RateChoice& choice) { return is_reference(choice.name); });
    }
  }
  return rates.axes.empty() || !any_choice(rates) ? std::nullopt : std::optional(std::move(rates));
}

std::optional<ResultTable> gains_of(const WinnerMap& rates) {
  ResultTable out{"gains", {}, {}};
  out.add_words(rates.axes);
  out.add_words({"policy", "part"});
  out.add_numbers({"requests_per_s", "requests_per_s_interval95_low", "requests_per_s_interval95_high", "share",
                   "share_interval95_low", "share_interval95_high"});
  for (const WinnerCell& cell : rates.cells) {
    for (GainSplit& split : gain_splits(cell.choices)) {
      std::reverse(split.parts.begin(), split.parts.end());
      split.parts.push_back(split.whole);
      for (const GainPart& part : split.parts) {
        std::vector<Cell>& row = out.rows.emplace_back(cell.place.begin(), cell.place.end());
        row.insert(row.end(), {split.policy, part.name});
        for (const Estimate& e : {part.requests_per_s, part.share}) {
          row.insert(row.end(), {e.mean, e.low(), e.high()});
        }
      }
    }
  }
  return out.rows.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace epsim
