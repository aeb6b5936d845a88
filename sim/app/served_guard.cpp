#include "sim/app/served_guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/core/refuse.h"
#include "sim/report/format.h"
#include "sim/report/text_table.h"
#include "traces/format/csv.h"

namespace epsim::app {
namespace {

std::string group_text(const ServedPoint& point) { return fmt::format("{}", fmt::join(point.groups, " ")); }

std::string error_column(std::size_t metric) { return fmt::format("error_{}_share", kServedMetrics[metric]); }

// Sizes of errors of one group and metric, of both versions.
struct ErrorSums {
  int points = 0;
  double before = 0, now = 0;
};

}  // namespace

ServedBefore read_served_before(const std::filesystem::path& file) {
  ByteInput input(file);
  CsvReader csv(input);
  const std::size_t row = csv.column("row"), group = csv.column("group");
  std::array<std::size_t, 3> columns{};
  for (std::size_t m = 0; m < columns.size(); ++m) {
    columns[m] = csv.column(error_column(m));
  }
  ServedBefore out;
  out.file = file.filename().string();
  while (csv.next()) {
    ServedBefore::Point point{std::string(csv.text(group)), {}};
    for (std::size_t m = 0; m < columns.size(); ++m) {
      point.error[m] = csv.text(columns[m]).empty() ? kUndefined : csv.number(columns[m]);
    }
    if (std::isfinite(point.error[1])) {
      out.points[static_cast<int>(csv.integer(row))] = std::move(point);
    }
  }
  return out;
}

ServedHeld hold_served(const ServedBefore& before, const std::vector<ServedPoint>& points) {
  ServedHeld out;
  std::map<std::pair<std::vector<std::string>, std::size_t>, ErrorSums> groups;
  for (const ServedPoint& point : points) {
    const auto then = before.points.find(point.row);
    if (then == before.points.end()) {
      continue;
    }
    refuse_if(then->second.group != group_text(point), {before.file, 0, fmt::format("row {}", point.row)},
              fmt::format("is of {}, and the table has {} there: errors of another table.", then->second.group,
                          group_text(point)));
    if (!point.has_figures()) {
      ++out.lost;
      continue;
    }
    ++out.points;
    for (std::size_t m = 0; m < kServedMetrics.size(); ++m) {
      const double now = point.error(m), earlier = then->second.error[m];
      if (std::isfinite(now) && std::isfinite(earlier)) {
        ErrorSums& sums = groups[{served_labels(point), m}];
        ++sums.points;
        sums.before += std::fabs(earlier);
        sums.now += std::fabs(now);
      }
    }
  }
  for (const auto& [key, sums] : groups) {
    const double was = sums.before / sums.points, now = sums.now / sums.points;
    if (now > was + kWorsePoints && now > was * (1 + kWorseShare)) {
      out.worse.push_back({key.first, key.second, sums.points, was, now});
    }
  }
  return out;
}

std::string held_text(const ServedBefore& before, const ServedHeld& held) {
  std::string out = fmt::format("\nagainst {}, points in both: {}", before.file, held.points);
  out += held.lost > 0 ? fmt::format("; no longer expressed: {}", held.lost) : "";
  if (held.worse.empty()) {
    return out + "; no group's mean error has grown by 2 points and by 10 %\n";
  }
  TextTable table;
  table.add_columns({{"group"}, {"metric"}}, Align::kLeft);
  table.add_columns({{"points"}, {"mean error before, %"}, {"now, %"}});
  for (const ServedWorse& w : held.worse) {
    table.add_row({printable(fmt::format("{}", fmt::join(w.labels, " "))), kServedMetrics[w.metric],
                   fmt::format("{}", w.points), percent(w.before), percent(w.now)});
  }
  return out + "; worse by 2 points and by 10 %:\n" + table.render(0);
}

std::vector<ServedPoint> quick_points(const std::vector<ServedPoint>& points) {
  std::map<std::vector<std::string>, const ServedPoint*> least;
  for (const ServedPoint& point : points) {
    if (point.reasons.empty()) {
      const ServedPoint*& chosen = least[served_labels(point)];
      chosen = chosen == nullptr || point.in_flight < chosen->in_flight ? &point : chosen;
    }
  }
  std::vector<ServedPoint> out;
  std::copy_if(points.begin(), points.end(), std::back_inserter(out), [&](const ServedPoint& point) {
    const auto found = least.find(served_labels(point));
    return point.reasons.empty() && found->second->assignments == point.assignments;
  });
  return out;
}

ResultTable served_errors_table(const std::vector<ServedPoint>& points) {
  ResultTable out{"errors", {{"row", false}, {"group", true}}, {}};
  out.add_numbers({error_column(0), error_column(1), error_column(2)});
  for (const ServedPoint& point : points) {
    if (!point.has_figures()) {
      continue;
    }
    std::vector<Cell>& row = out.rows.emplace_back();
    row.emplace_back(static_cast<double>(point.row));
    row.emplace_back(group_text(point));
    for (std::size_t m = 0; m < kServedMetrics.size(); ++m) {
      row.emplace_back(std::round(point.error(m) * 1e4) / 1e4);
    }
  }
  return out;
}

}  // namespace epsim::app
