#include "sim/verbs/sweep_seeds.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/core/mapped.h"
#include "sim/report/estimate.h"

namespace epsim {
namespace {

// A combination of the axes but `seed`.
struct Group {
  std::vector<std::string> values;
  std::vector<std::vector<std::size_t>> points;  // [policy][seed]
};

std::vector<Group> groups_of(const SweepRequest& request, std::size_t seed_axis) {
  const std::size_t policies = std::max<std::size_t>(1, request.policies.size());
  std::vector<Group> out;
  std::map<std::vector<std::string>, std::size_t> known;
  for (std::size_t point = 0; point < count_points(request); ++point) {
    std::vector<std::string> values = values_at(request.axes, point / policies);
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(seed_axis));
    const auto [at, added] = known.try_emplace(values, out.size());
    if (added) {
      out.push_back({std::move(values), std::vector<std::vector<std::size_t>>(policies)});
    }
    out[at->second].points[point % policies].push_back(point);
  }
  return out;
}

std::optional<std::size_t> seed_axis_of(const SweepRequest& request) {
  const auto seed = std::find_if(request.axes.begin(), request.axes.end(),
                                 [](const SweepAxis& axis) { return axis.key == "seed" && axis.values.size() > 1; });
  return seed != request.axes.end() ? std::optional(static_cast<std::size_t>(seed - request.axes.begin()))
                                    : std::nullopt;
}

using ResultRows = std::vector<std::vector<std::vector<Cell>>>;  // [policy][seed]

// The figure in column `c` under each seed of a policy and, where the first policy has it too, its ratio to that.
struct Values {
  std::vector<double> own, ratios;
};

Values values_of(const ResultRows& rows, std::size_t policy, std::size_t c) {
  Values out;
  for (std::size_t s = 0; s < rows[policy].size(); ++s) {
    const double own = number_of(rows[policy][s][c]), first = number_of(rows[0][s][c]);
    if (std::isfinite(own)) {  // a point that failed has none
      out.own.push_back(own);
    }
    if (std::isfinite(own) && first > 0) {
      out.ratios.push_back(own / first);
    }
  }
  return out;
}

// A rate that a search found, which its bracket leaves uncertain.
bool is_searched(const std::string& figure) {
  return std::ranges::find(kSearchedRates, figure) != kSearchedRates.end();
}

}  // namespace

std::optional<ResultTable> intervals_layout(const SweepRequest& request) {
  const std::optional<std::size_t> seed_axis = seed_axis_of(request);
  if (!seed_axis) {
    return std::nullopt;
  }
  std::vector<ResultColumn> lead = lead_columns(request);
  lead.erase(lead.begin() + static_cast<std::ptrdiff_t>(1 + *seed_axis));
  lead.erase(lead.begin());  // the number of the point
  ResultTable out{"intervals", lead, {}};
  out.add_words({"figure"});
  out.add_numbers({"seeds", "mean", "interval95_low", "interval95_high", "ratio_mean", "ratio_interval95_low",
                   "ratio_interval95_high"});
  return out;
}

void each_interval(const SweepRequest& request, const std::vector<ResultColumn>& columns,
                   const std::function<std::vector<Cell>(std::size_t point)>& result_of,
                   const std::function<void(std::vector<Cell>)>& found) {
  for (const Group& group : groups_of(request, seed_axis_of(request).value())) {
    const ResultRows rows = mapped(group.points, [&](const auto& points) { return mapped(points, result_of); });
    for (std::size_t policy = 0; policy < rows.size(); ++policy) {
      for (std::size_t c = lead_columns(request).size(); c < columns.size(); ++c) {
        const Values values = columns[c].text || !has_mean(columns[c].name) ? Values{} : values_of(rows, policy, c);
        if (values.own.empty()) {
          continue;
        }
        std::vector<Cell> row(group.values.begin(), group.values.end());
        if (!request.policies.empty()) {
          row.emplace_back(request.policies[policy]);
        }
        row.emplace_back(columns[c].name);
        row.emplace_back(static_cast<double>(values.own.size()));
        const double bracket = is_searched(columns[c].name) ? request.goodput.tolerance : 0;
        for (const Estimate& e : {searched_estimate(values.own, bracket, 1),
                                  searched_estimate(values.ratios, policy == 0 ? 0 : bracket, 2)}) {
          row.insert(row.end(), {e.mean, e.low(), e.high()});
        }
        found(std::move(row));
      }
    }
  }
}

}  // namespace epsim
