#include "sim/app/served_summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "sim/core/mapped.h"
#include "sim/core/statistics.h"
#include "sim/report/format.h"

namespace epsim::app {
namespace {

constexpr std::pair<double, const char*> kInFlight[] = {
    {8, "1-8"}, {32, "9-32"}, {128, "33-128"}, {512, "129-512"}, {std::numeric_limits<double>::infinity(), "over 512"}};

auto in_flight_range(double n) {
  return std::find_if(std::begin(kInFlight), std::end(kInFlight), [&](const auto& r) { return n <= r.first; });
}

using RunPoints = std::vector<const ServedPoint*>;  // that have figures

std::array<ServedErrors, 3> errors_of(const RunPoints& points) {
  std::array<ServedErrors, 3> out;
  for (std::size_t m = 0; m < out.size(); ++m) {
    std::vector<double> errors;
    for (const ServedPoint* point : points) {
      if (std::isfinite(point->error(m))) {
        errors.push_back(point->error(m));
      }
    }
    out[m] = served_errors(errors);
  }
  return out;
}

double median_of(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

bool is_measured(const ServedPoint* point, std::size_t m) { return std::isfinite(point->measured[m]); }

// The sum of errors that the best single prediction of all `same` leaves: it is one of the values itself, as the sum is
// piecewise linear between them.
double least_errors(const std::vector<const ServedPoint*>& same, std::size_t m) {
  double least = std::numeric_limits<double>::infinity();
  for (const ServedPoint* one : same) {
    double sum = 0;
    for (const ServedPoint* other : same) {
      const double error = one->measured[m] / other->measured[m] - 1;
      sum += std::isfinite(error) ? std::fabs(error) : 0;
    }
    least = is_measured(one, m) ? std::min(least, sum) : least;
  }
  return std::isfinite(least) ? least : 0;
}

std::array<ServedNoise, 3> noise_of(const std::vector<ServedPoint>& points) {
  std::map<std::vector<std::string>, std::vector<const ServedPoint*>> alike;
  for (const ServedPoint& point : points) {
    if (std::isfinite(point.day)) {
      alike[point.flags].push_back(&point);
    }
  }
  std::array<std::vector<double>, 3> apart;
  std::array<ServedNoise, 3> out;
  std::array<std::ptrdiff_t, 3> measured{};
  for (auto& [flags, same] : alike) {
    for (std::size_t m = 0; m < out.size(); ++m) {
      out[m].least_mean += least_errors(same, m);
      measured[m] += std::count_if(same.begin(), same.end(), [m](const auto* point) { return is_measured(point, m); });
    }
    std::stable_sort(same.begin(), same.end(), [](const auto* a, const auto* b) { return a->day < b->day; });
    for (std::size_t i = 1; i < same.size(); ++i) {
      for (std::size_t m = 0; m < apart.size() && same[i]->day - same[i - 1]->day <= kRepeatDays; ++m) {
        const double error = same[i]->measured[m] / same[i - 1]->measured[m] - 1;
        if (std::isfinite(error)) {
          apart[m].push_back(std::fabs(error));
        }
      }
    }
  }
  for (std::size_t m = 0; m < out.size(); ++m) {
    std::sort(apart[m].begin(), apart[m].end());
    if (!apart[m].empty()) {
      out[m].pairs = static_cast<int>(apart[m].size());
      out[m].least_mean /= static_cast<double>(measured[m]);
      out[m].median = median_of(apart[m]);
      out[m].p90 = apart[m][quantile_position(0.9, apart[m].size())];
    }
  }
  return out;
}

void sort_counts(std::vector<ServedCount>& counts) {
  std::stable_sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.points > b.points; });
}

void count_text(std::vector<ServedCount>& counts, const std::string& text, bool alone) {
  auto found = std::ranges::find(counts, text, &ServedCount::text);
  found = found != counts.end() ? found : counts.insert(found, ServedCount{text, 0, 0});
  ++found->points;
  found->alone += alone ? 1 : 0;
}

void count_coverage(const std::vector<ServedPoint>& points, ServedSummary& out) {
  for (const ServedPoint& point : points) {
    std::set<std::string> reasons(point.reasons.begin(), point.reasons.end());
    if (point.run && !point.run->error.empty()) {
      reasons.insert(point.run->error);
    }
    for (const std::string& reason : reasons) {
      count_text(out.unexpressed, reason, reasons.size() == 1);
    }
    if (!reasons.empty()) {
      continue;
    }
    std::set<std::string> stand_ins(point.notes.begin(), point.notes.end());
    stand_ins.insert(point.run->stand_ins.begin(), point.run->stand_ins.end());
    for (const std::string& text : stand_ins) {
      count_text(out.stand_ins, text, stand_ins.size() == 1);
    }
    out.exact += stand_ins.empty() ? 1 : 0;
  }
  sort_counts(out.unexpressed);
  sort_counts(out.stand_ins);
}

// ---- hints ----

constexpr std::size_t kLeastForHint = 3;  // different scenarios: with fewer every term fits

double term_of(const ServedRun& run, const std::string& name) {
  const auto found =
      std::find_if(run.tpot_terms.begin(), run.tpot_terms.end(), [&](const auto& t) { return t.first == name; });
  return found != run.tpot_terms.end() ? found->second : 0;
}

// `slope`: what the prediction of a point grows by; how often it is to be added so that the mean size
// of the relative errors is least. The sum of |error + multiple x s| is piecewise linear: least at the median of
// -error / s, each with the weight |s|.
double best_multiple(const RunPoints& points, std::size_t m, const std::function<double(const ServedPoint*)>& slope) {
  std::vector<std::pair<double, double>> wanted;  // multiple, weight
  double left = 0;
  for (const ServedPoint* point : points) {
    if (const double s = slope(point) / point->measured[m]; s != 0) {
      wanted.emplace_back(-point->error(m) / s, std::fabs(s));
      left += std::fabs(s) / 2;
    }
  }
  std::sort(wanted.begin(), wanted.end());
  for (const auto& [multiple, weight] : wanted) {
    left -= weight;
    if (left <= 0) {
      return multiple;
    }
  }
  return 0;
}

double mean_with(const RunPoints& points, std::size_t m, const std::function<double(const ServedPoint*)>& slope,
                 double multiple) {
  double sum = 0;
  for (const ServedPoint* point : points) {
    sum += std::fabs(point->error(m) + multiple * slope(point) / point->measured[m]);
  }
  return sum / static_cast<double>(points.size());
}

std::vector<std::pair<std::string, double>> shares_of(const RunPoints& points) {
  std::vector<std::pair<std::string, double>> out;
  for (const ServedPoint* point : points) {
    for (const auto& [name, seconds] : point->run->tpot_terms) {
      auto found = std::find_if(out.begin(), out.end(), [&wanted = name](const auto& s) { return s.first == wanted; });
      found = found != out.end() ? found : out.insert(found, {name, 0.0});
      found->second += seconds / point->run->predicted[1] / static_cast<double>(points.size());
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

std::optional<ServedHint> hint_of(const std::vector<std::string>& labels, RunPoints points, std::size_t m) {
  std::erase_if(points, [&](const ServedPoint* point) { return !std::isfinite(point->error(m)); });
  std::set<std::vector<std::string>> scenarios;
  for (const ServedPoint* point : points) {
    scenarios.insert(point->assignments);
  }
  if (scenarios.size() < kLeastForHint) {
    return std::nullopt;
  }
  ServedHint out;
  out.labels = labels;
  out.metric = m;
  out.shares = shares_of(points);
  out.mean_now = out.mean_then = errors_of(points)[m].mean;
  const auto consider = [&](const std::string& term, const std::function<double(const ServedPoint*)>& slope) {
    const double multiple = best_multiple(points, m, slope), mean = mean_with(points, m, slope, multiple);
    const bool possible = term.empty() || multiple > -1;
    if (possible && mean < out.mean_then) {
      out.term = term;
      out.mean_then = mean;
      out.factor = term.empty() ? 1 : 1 + multiple;
      out.added_s = term.empty() ? multiple : 0;
    }
  };
  consider("", [](const ServedPoint*) { return 1.0; });
  if (m == 1) {
    for (const auto& [name, share] : out.shares) {
      consider(name, [&name = name](const ServedPoint* point) { return term_of(*point->run, name); });
    }
  } else {
    consider("all of it", [m](const ServedPoint* point) { return point->run->predicted[m]; });
  }
  return out;
}

std::vector<ServedGroup> kinds_of(const RunPoints& points) {
  std::vector<ServedGroup> out;
  const auto add = [&](const std::string& label, const auto& belongs) {
    RunPoints some;
    std::ranges::copy_if(points, std::back_inserter(some), belongs);
    if (!some.empty() && some.size() < points.size()) {
      out.push_back({{label}, errors_of(some)});
    }
  };
  for (const bool drafts : {false, true}) {
    const std::string end = drafts ? ", drafts" : "";
    const auto is_apart = [drafts](const ServedPoint* p) {
      return p->run->prefill_ranks > 0 && p->run->drafts == drafts;
    };
    add("prefill and decode together" + end,
        [drafts](const ServedPoint* p) { return p->run->prefill_ranks == 0 && p->run->drafts == drafts; });
    add("prefill and decode apart" + end, is_apart);
    add("apart, prefill not saturated" + end,
        [&](const ServedPoint* p) { return is_apart(p) && p->prompts_per_rank() <= kPromptsUnsaturated; });
  }
  return out;
}

}  // namespace

ServedErrors served_errors(const std::vector<double>& errors) {
  ServedErrors out;
  out.points = static_cast<int>(errors.size());
  if (errors.empty()) {
    out.median = out.mean = out.p90 = out.bias = kUndefined;
    return out;
  }
  std::vector<double> sizes;
  for (const double e : errors) {
    sizes.push_back(std::fabs(e));
    out.mean += std::fabs(e) / static_cast<double>(errors.size());
    out.bias += e / static_cast<double>(errors.size());
  }
  std::sort(sizes.begin(), sizes.end());
  out.median = median_of(sizes);
  out.p90 = sizes[quantile_position(0.9, sizes.size())];
  return out;
}

std::vector<std::string> served_labels(const ServedPoint& point) {
  std::vector<std::string> out = point.groups;
  const auto range = in_flight_range(point.in_flight);
  out.emplace_back(range != std::end(kInFlight) ? range->second : "-");
  return out;
}

ServedSummary summarise_served(const ServedLayout& layout, const std::vector<ServedPoint>& points) {
  ServedSummary out;
  out.headings = mapped(layout.groups, [](const auto& group) { return group.first; });
  out.means = layout.means;
  out.points = static_cast<int>(points.size());
  RunPoints expressed;
  for (const ServedPoint& point : points) {
    if (point.has_figures()) {
      expressed.push_back(&point);
    }
  }
  out.expressed = static_cast<int>(expressed.size());
  std::set<std::vector<std::string>> scenarios;
  std::map<std::vector<std::string>, RunPoints> by_group;
  std::map<std::pair<std::vector<std::string>, double>, RunPoints> by_in_flight;  // ranges in their order
  for (const ServedPoint* point : expressed) {
    scenarios.insert(point->assignments);
    by_group[point->groups].push_back(point);
    const auto range = in_flight_range(point->in_flight) - std::begin(kInFlight);
    by_in_flight[{point->groups, static_cast<double>(range)}].push_back(point);
  }
  out.scenarios = static_cast<int>(scenarios.size());
  count_coverage(points, out);
  out.noise = noise_of(points);
  out.all = {std::vector<std::string>(out.headings.size() + 1), errors_of(expressed)};
  out.all.labels.front() = "all";
  out.kinds = kinds_of(expressed);
  out.shares = shares_of(expressed);
  for (const auto& [key, some] : by_in_flight) {
    out.groups.push_back({served_labels(*some.front()), errors_of(some)});
  }
  for (const auto& [labels, some] : by_group) {
    for (const std::size_t m : {std::size_t{1}, std::size_t{0}}) {
      if (std::optional<ServedHint> hint = hint_of(labels, some, m)) {
        out.hints.push_back(*std::move(hint));
      }
    }
  }
  return out;
}

}  // namespace epsim::app
