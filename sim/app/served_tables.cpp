// Served points as text, tables and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/app/served_summary.h"
#include "sim/core/mapped.h"
#include "sim/core/text.h"
#include "sim/report/format.h"
#include "sim/report/text_table.h"

namespace epsim::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kServedTitles[] = {"TTFT", "TPOT", "end to end"};
constexpr std::size_t kShownOrder[] = {1, 0, 2};  // TPOT first: what a step takes
constexpr const char* kInFlightColumn = "in_flight";
constexpr std::size_t kServedColumns = 110, kMostPointsShown = 24, kSharesShown = 4;

std::string counted(const std::vector<ServedCount>& counts, bool alone) {
  std::string out;
  for (const ServedCount& c : counts) {
    const std::string head =
        alone ? fmt::format("{:>7}  {:>5}  ", c.points, c.alone) : fmt::format("{:>7}  ", c.points);
    out += head + wrapped(printable(c.text), kServedColumns, head.size(), head.size()) + "\n";
  }
  return out;
}

std::string coverage_text(const ServedSummary& s) {
  std::string out = fmt::format("expressed: {} of {} measured points ({} %), as {}; {} without a stand-in\n",
                                s.expressed, s.points, percent(s.expressed / static_cast<double>(s.points)),
                                count_of(s.scenarios, "different scenario"), s.exact);
  if (!s.unexpressed.empty()) {
    out += "\n points  alone  not expressed, and why (alone: for no other reason)\n" + counted(s.unexpressed, true);
  }
  if (!s.stand_ins.empty()) {
    out += "\n points  expressed with a stand-in\n" + counted(s.stand_ins, false);
  }
  std::vector<std::string> noise, least;
  for (const std::size_t m : kShownOrder) {
    if (s.noise[m].pairs > 0) {
      least.push_back(fmt::format("{} {} %", kServedTitles[m], percent(s.noise[m].least_mean)));
      noise.push_back(
          fmt::format("{} {} % (p90 {})", kServedTitles[m], percent(s.noise[m].median), percent(s.noise[m].p90)));
    }
  }
  if (!noise.empty()) {
    out += fmt::format("\nnoise floor, median of what a repeat within {:.0f} days differs by ({} pairs): {}\n",
                       kRepeatDays, std::ranges::max(s.noise, {}, &ServedNoise::pairs).pairs, fmt::join(noise, ", "));
    out += fmt::format("least mean error of predictions that know a point's flags and not its date: {}\n",
                       fmt::join(least, ", "));
  }
  return out;
}

// A point may lack one of the figures.
int points_of(const ServedGroup& group) { return std::ranges::max(group.errors, {}, &ServedErrors::points).points; }

void add_error_row(TextTable& table, const ServedGroup& group) {
  std::vector<std::string> cells = mapped(group.labels, printable);
  cells.push_back(fmt::format("{}", points_of(group)));
  for (const std::size_t m : kShownOrder) {
    const ServedErrors& e = group.errors[m];
    cells.insert(cells.end(), {percent(e.median), percent(e.mean), percent(e.p90), signed_percent(e.bias)});
  }
  table.add_row(std::move(cells));
}

void add_error_columns(TextTable& table) {
  table.add_column({"", "points"});
  for (const std::size_t m : kShownOrder) {
    table.add_columns({{kServedTitles[m], "median"}, {"", "mean"}, {"", "p90"}, {"", "bias"}});
  }
}

std::string kinds_text(const ServedSummary& s) {
  if (s.kinds.empty()) {
    return "";
  }
  TextTable table;
  table.add_column({"", "all of"}, Align::kLeft);
  add_error_columns(table);
  bool some_unsaturated = false;
  for (const ServedGroup& kind : s.kinds) {
    add_error_row(table, kind);
    some_unsaturated = some_unsaturated || kind.labels.front().find("not saturated") != std::string::npos;
  }
  const std::string rule = fmt::format(
      "not saturated: at most {} prompt at a prefill rank on average, by the measured times (in flight x "
      "TTFT / end to end / ranks)\n",
      kPromptsUnsaturated);
  return "\n" + table.render(0) + (some_unsaturated ? rule : "");
}

std::string groups_text(const ServedSummary& s) {
  TextTable table;
  for (const std::string& heading : s.headings) {
    table.add_column({"", printable(heading)}, Align::kLeft);
  }
  table.add_column({"in", "flight"}, Align::kLeft);
  add_error_columns(table);
  for (const ServedGroup& group : s.groups) {
    add_error_row(table, group);
  }
  add_error_row(table, s.all);
  return fmt::format(
             "\nerror of predicted {}, % of the measured ones: size (median, mean, 90th percentile), and bias (mean "
             "with its sign)\n",
             s.means ? "means" : "medians") +
         table.render(0) + kinds_text(s);
}

std::string shares_text(const std::vector<std::pair<std::string, double>>& shares) {
  std::string out;
  for (std::size_t i = 0; i < std::min(kSharesShown, shares.size()); ++i) {
    out += fmt::format("{} {} {} %", i > 0 ? "," : "", shares[i].first, percent(shares[i].second));
  }
  return out;
}

std::string hints_text(const ServedSummary& s) {
  std::string out;
  for (const ServedHint& h : s.hints) {
    const bool tpot = h.metric == 1;
    const std::string what = !h.term.empty() ? fmt::format("{} x {:.2f}", h.term, h.factor)
                             : h.mean_then < h.mean_now
                                 ? fmt::format("{:+.2f} ms a {}", h.added_s * 1e3, tpot ? "token" : "request")
                                 : std::string("no single term");
    std::string line = fmt::format("  {}, {}: {} leaves a mean error of {} % (now {})",
                                   printable(fmt::format("{}", fmt::join(h.labels, " "))), kServedTitles[h.metric],
                                   what, percent(h.mean_then), percent(h.mean_now));
    if (tpot) {
      line += "; its terms:" + shares_text(h.shares);
    }
    out += wrapped(line, kServedColumns, 4) + "\n";
  }
  if (out.empty()) {
    const std::string line =
        "where to look first: fewer than three different loads fit any term; those of the predicted TPOT:" +
        shares_text(s.shares);
    return s.shares.empty() ? "" : "\n" + wrapped(line, kServedColumns, 2) + "\n";
  }
  return "\nwhere to look first: the one term that, changed alone, leaves the least error (a hint; no price is "
         "changed by it)\n" +
         out;
}

std::string served_points_text(const ResultTable& points) {
  const auto is_shown = [](const ResultColumn& c) {
    return c.name == "row" || c.name == kInFlightColumn || c.name.starts_with("measured_") ||
           c.name.starts_with("predicted_") || c.name.starts_with("error_");
  };
  TextTable table;
  for (const ResultColumn& column : points.columns) {
    if (is_shown(column)) {
      const std::size_t cut = column.name.find('_');
      const std::string first = column.name.substr(0, cut);
      const std::string second = cut == std::string::npos ? "" : column.name.substr(cut + 1);
      const bool error = first == "error";  // a share, shown in %
      table.add_column({error ? "error, %" : first, error ? second.substr(0, second.find('_')) : second});
    }
  }
  for (const std::vector<Cell>& row : points.rows) {
    std::vector<std::string> cells;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (is_shown(points.columns[c])) {
        const double value = number_of(row[c]);
        const std::string& name = points.columns[c].name;
        cells.push_back(name.starts_with("error_") ? signed_percent(value)
                        : name.ends_with("_ms")    ? rounded(value)
                        : std::isnan(value)        ? "-"
                                                   : fmt::format("{:.6g}", value));
      }
    }
    table.add_row(std::move(cells));
  }
  return "\npoints\n" + table.render(0);
}

Json served_errors_json(const std::array<ServedErrors, 3>& errors) {
  Json out = Json::object();
  for (std::size_t m = 0; m < errors.size(); ++m) {
    const ServedErrors& e = errors[m];
    out[kServedMetrics[m]] = {{"points", e.points},
                              {"median_share", e.median},
                              {"mean_share", e.mean},
                              {"p90_share", e.p90},
                              {"bias_share", e.bias}};
  }
  return out;
}

Json served_counts_json(const std::vector<ServedCount>& counts) {
  return mapped(counts, [](const ServedCount& c) {
    return Json{{"text", c.text}, {"points", c.points}, {"alone", c.alone}};
  });
}

// Names of all terms in the order in which they first come.
std::vector<std::string> served_term_names(const std::vector<ServedPoint>& points) {
  std::vector<std::string> out;
  for (const ServedPoint& point : points) {
    const ServedRun run = point.run.value_or(ServedRun{});
    for (const auto& [name, seconds] : run.tpot_terms) {
      if (std::find(out.begin(), out.end(), name) == out.end()) {
        out.push_back(name);
      }
    }
  }
  return out;
}

}  // namespace

ResultTable served_table(const ServedLayout& layout, const std::vector<ServedPoint>& points) {
  ResultTable out{"points", {{"row", false}, {"group", true}}, {}};
  for (const std::string& flag : layout.flags) {
    if (flag != kInFlightColumn) {
      out.add_words({flag});
    }
  }
  out.add_numbers({kInFlightColumn});
  for (const char* kind : {"measured", "predicted", "error"}) {
    for (const char* metric : kServedMetrics) {
      out.add_numbers({fmt::format("{}_{}_{}", kind, metric, kind == std::string_view("error") ? "share" : "ms")});
    }
  }
  const std::vector<std::string> terms = served_term_names(points);
  for (const std::string& term : terms) {
    out.add_numbers({"tpot_" + term + "_ms"});
  }
  out.add_numbers({"kv_tokens_per_rank", "extrapolated_share"});
  out.add_words({"unexpressed", "settings"});
  for (const ServedPoint& point : points) {
    const ServedRun run = point.run.value_or(ServedRun{});
    const bool has = point.has_figures();
    std::vector<Cell>& row = out.rows.emplace_back(std::vector<Cell>{static_cast<double>(point.row)});
    row.emplace_back(fmt::format("{}", fmt::join(point.groups, " ")));
    for (std::size_t f = 0; f < point.flags.size(); ++f) {
      if (layout.flags[f] != kInFlightColumn) {
        row.emplace_back(point.flags[f]);
      }
    }
    row.emplace_back(point.in_flight);
    for (const double measured : point.measured) {
      row.emplace_back(measured * 1e3);
    }
    for (const double predicted : run.predicted) {
      row.emplace_back(has ? predicted * 1e3 : kUndefined);
    }
    for (std::size_t m = 0; m < kServedMetrics.size(); ++m) {
      row.emplace_back(has ? point.error(m) : kUndefined);
    }
    for (const std::string& term : terms) {
      const auto found =
          std::find_if(run.tpot_terms.begin(), run.tpot_terms.end(), [&](const auto& t) { return t.first == term; });
      row.emplace_back(found != run.tpot_terms.end() ? found->second * 1e3 : kUndefined);
    }
    row.emplace_back(has ? run.kv_tokens : kUndefined);
    row.emplace_back(has ? run.extrapolated : kUndefined);
    row.emplace_back(has ? std::string() : point.run ? run.error : fmt::format("{}", fmt::join(point.reasons, "; ")));
    row.emplace_back(has ? fmt::format("--set '{}'", fmt::join(point.assignments, "' --set '")) : std::string());
  }
  return out;
}

ResultTable served_groups_table(const ServedSummary& s) {
  ResultTable out{"groups", {}, {}};
  out.add_words(s.headings);
  out.add_words({"in_flight"});
  out.add_numbers({"points"});
  for (const std::size_t m : kShownOrder) {
    for (const char* name : {"median", "mean", "p90", "bias"}) {
      out.add_numbers({fmt::format("{}_{}_error_share", kServedMetrics[m], name)});
    }
  }
  const auto add = [&](const ServedGroup& group) {
    std::vector<Cell>& row = out.rows.emplace_back(group.labels.begin(), group.labels.end());
    row.emplace_back(static_cast<double>(points_of(group)));
    for (const std::size_t m : kShownOrder) {
      const ServedErrors& e = group.errors[m];
      row.insert(row.end(), {e.median, e.mean, e.p90, e.bias});
    }
  };
  for (const ServedGroup& group : s.groups) {
    add(group);
  }
  add(s.all);
  return out;
}

std::string served_text(const ServedSummary& s, const ResultTable& points) {
  std::string out = coverage_text(s);
  if (s.expressed > 0) {
    out += groups_text(s) + hints_text(s);
  }
  return out + (points.rows.size() <= kMostPointsShown ? served_points_text(points) : "");
}

std::string served_json(const ServedSummary& s, const ResultTable& points) {
  Json out{{"format", 1},
           {"points", s.points},
           {"expressed", s.expressed},
           {"without_stand_in", s.exact},
           {"scenarios", s.scenarios},
           {"statistic", s.means ? "mean" : "median"},
           {"unexpressed", served_counts_json(s.unexpressed)},
           {"stand_ins", served_counts_json(s.stand_ins)}};
  for (std::size_t m = 0; m < s.noise.size(); ++m) {
    out["repeats"][kServedMetrics[m]] = {{"pairs", s.noise[m].pairs},
                                         {"median_share", s.noise[m].median},
                                         {"p90_share", s.noise[m].p90},
                                         {"least_mean_share", s.noise[m].least_mean}};
  }
  out["errors"] = served_errors_json(s.all.errors);
  out["group_names"] = s.headings;
  out["groups"] = mapped(s.groups, [](const ServedGroup& group) {
    return Json{{"labels", group.labels}, {"errors", served_errors_json(group.errors)}};
  });
  out["hints"] = mapped(s.hints, [](const ServedHint& h) {
    return Json{{"labels", h.labels},
                {"metric", kServedMetrics[h.metric]},
                {"term", h.term},
                {"factor", h.factor},
                {"added_s", h.added_s},
                {"mean_share", h.mean_now},
                {"mean_left_share", h.mean_then}};
  });
  out["rows"] = json_rows(points);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace epsim::app
