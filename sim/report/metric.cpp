#include "sim/report/metric.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "sim/report/format.h"

namespace epsim {
namespace {

template <class Wanted>
std::vector<const Metric*> select(Wanted wanted) {
  std::vector<const Metric*> out;
  for (const Metric& m : metrics()) {
    if (wanted(m)) {
      out.push_back(&m);
    }
  }
  return out;
}

std::vector<const Metric*> by_place(std::vector<const Metric*> all) {
  std::sort(all.begin(), all.end(), [](const Metric* a, const Metric* b) { return a->key.place < b->key.place; });
  return all;
}

}  // namespace

std::vector<const Metric*> metrics_of(std::string_view section) {
  return select([&](const Metric& m) { return m.section == section; });
}

const Metric& metric(std::string_view name) {
  const std::vector<Metric>& all = metrics();
  const auto found = std::ranges::find(all, name, &Metric::name);
  if (found == all.end()) {
    throw std::out_of_range("no metric of a run has the name " + std::string(name));
  }
  return *found;
}

bool has_mean(std::string_view column) {
  const auto found = std::ranges::find(metrics(), column, &Metric::name);
  return found == metrics().end() || found->has_mean();
}

std::vector<const Metric*> key_columns() {
  return by_place(select([](const Metric& m) { return m.key.has_column(); }));
}
std::vector<const Metric*> page_figures() {
  return by_place(select([](const Metric& m) { return !m.key.label.empty(); }));
}
std::vector<const Metric*> compared_metrics() {
  return select([](const Metric& m) { return !m.key.title.empty(); });
}
std::vector<const Metric*> changing_metrics() {
  return select([](const Metric& m) { return !m.key.change.empty(); });
}

std::string shown(Form form, double value) {
  switch (form) {
    case Form::kThreeDigits:
      return fixed(value, 3);
    case Form::kPercent:
      return percent(value);
    case Form::kCount:
    case Form::kIndex:
      return std::isfinite(value) ? grouped(std::llround(value)) : "-";
    default:
      return rounded(value);
  }
}

std::string_view name_of(Better better) {
  return better == Better::kLower ? "lower" : better == Better::kHigher ? "higher" : "";
}

}  // namespace epsim
