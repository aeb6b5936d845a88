#include "sim/verbs/sweep_seeds.h"

#include <algorithm>
#include <cmath>
#include <map>

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

void add_estimate(std::vector<Cell>& row, const Estimate& e) {
  for (const double value : {e.mean, e.low(), e.high()}) {
    row.emplace_back(value);
  }
}

// The figure in column `c` under each seed of a policy and, where the first policy has it too, its ratio to that.
struct Values {
  std::vector<double> own, ratios;
};

Values values_of(const ResultTable& results, const Group& group, std::size_t policy, std::size_t c) {
  Values out;
  for (std::size_t s = 0; s < group.points[policy].size(); ++s) {
    const double own = number_of(results.rows[group.points[policy][s]][c]);
    const double first = number_of(results.rows[group.points[0][s]][c]);
    if (std::isfinite(own)) {  // a point that failed has none
      out.own.push_back(own);
    }
    if (std::isfinite(own) && first > 0) {
      out.ratios.push_back(own / first);
    }
  }
  return out;
}

}  // namespace

std::optional<ResultTable> intervals_over_seeds(const SweepRequest& request, const ResultTable& results) {
  const auto seed = std::find_if(request.axes.begin(), request.axes.end(),
                                 [](const SweepAxis& axis) { return axis.key == "seed" && axis.values.size() > 1; });
  if (seed == request.axes.end()) {
    return std::nullopt;
  }
  const auto seed_axis = static_cast<std::size_t>(seed - request.axes.begin());
  std::vector<ResultColumn> lead = lead_columns(request);
  const std::size_t first_figure = lead.size();
  lead.erase(lead.begin() + static_cast<std::ptrdiff_t>(1 + seed_axis));
  lead.erase(lead.begin());  // the number of the point
  ResultTable out{"intervals", lead, {}};
  out.columns.push_back({"figure", true});
  for (const char* name : {"seeds", "mean", "interval95_low", "interval95_high", "ratio_mean", "ratio_interval95_low",
                           "ratio_interval95_high"}) {
    out.columns.push_back({name, false});
  }
  for (const Group& group : groups_of(request, seed_axis)) {
    for (std::size_t policy = 0; policy < group.points.size(); ++policy) {
      for (std::size_t c = first_figure; c < results.columns.size(); ++c) {
        const Values values = results.columns[c].text ? Values{} : values_of(results, group, policy, c);
        if (values.own.empty()) {
          continue;
        }
        std::vector<Cell> row(group.values.begin(), group.values.end());
        if (!request.policies.empty()) {
          row.emplace_back(request.policies[policy]);
        }
        row.emplace_back(results.columns[c].name);
        row.emplace_back(static_cast<double>(values.own.size()));
        add_estimate(row, estimate(values.own));
        add_estimate(row, estimate(values.ratios));
        out.rows.push_back(std::move(row));
      }
    }
  }
  return out;
}

}  // namespace epsim
