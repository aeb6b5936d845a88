#include "calibration/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"

namespace epsim {
namespace {

constexpr std::array<ProvenanceField, 15> kProvenanceFields = {{{"machine", &Provenance::machine},
                                                                {"gpu", &Provenance::gpu},
                                                                {"driver", &Provenance::driver},
                                                                {"cuda", &Provenance::cuda},
                                                                {"nccl", &Provenance::nccl},
                                                                {"cublas", &Provenance::cublas},
                                                                {"git_revision", &Provenance::git_revision},
                                                                {"date", &Provenance::date},
                                                                {"host", &Provenance::host},
                                                                {"clocks", &Provenance::clocks},
                                                                {"throttle", &Provenance::throttle},
                                                                {"ecc", &Provenance::ecc},
                                                                {"source", &Provenance::source},
                                                                {"licence", &Provenance::licence},
                                                                {"notes", &Provenance::notes}}};

// Datasets of an operator's group that are no columns.
constexpr std::array<std::string_view, 6> kReserved = {"time_s",  "rel_error",       "repeats",
                                                       "columns", "attribute_names", "attribute_values"};

bool is_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

// The letters and digits of a GPU's name, without its vendor.
std::string gpu_key(const std::string& name) {
  std::string key;
  for (const unsigned char c : name) {
    if (std::isalnum(c) != 0) {
      key += static_cast<char>(std::tolower(c));
    }
  }
  return key.starts_with("nvidia") ? key.substr(6) : key;
}

void check_names(const PointTable& table, const std::string& file) {
  refuse_if(!is_name(table.op), {file, 0, table.op}, "an operator's name has letters, digits, '_' and '-'.");
  refuse_if(table.columns.empty(), {file, 0, table.op}, "a table of points needs at least one column.");
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string& name = table.columns[c];
    const bool reserved = std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
    const bool twice = std::find(table.columns.begin(), table.columns.begin() + static_cast<std::ptrdiff_t>(c), name) !=
                       table.columns.begin() + static_cast<std::ptrdiff_t>(c);
    refuse_if(!is_name(name) || reserved || twice, {file, 0, table.op + "/" + name},
              fmt::format("'{}' is {}.", name,
                          twice      ? "a column twice"
                          : reserved ? "no name for a column: it is reserved"
                                     : "no name for a column: letters, digits, '_' and '-'"));
  }
}

void check_numbers(const PointTable& table, const std::string& name, std::span<const double> numbers, bool positive,
                   const std::string& file) {
  const InputPlace place{file, 0, table.op + "/" + name};
  refuse_if(numbers.size() != table.size(), place,
            fmt::format("has {} values, where the table has {} times.", numbers.size(), table.size()));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double x = numbers[i];
    if (!std::isfinite(x) || x < 0 || (positive && x == 0)) {
      throw InputError(place, fmt::format("point {} is {}; it must be finite and {}.", i, x,
                                          positive ? "positive" : "not negative"));
    }
  }
}

void check_table(const PointTable& table, const std::string& file) {
  check_names(table, file);
  refuse_if(table.values.size() != table.columns.size(), {file, 0, table.op},
            fmt::format("has {} columns of values for {} names.", table.values.size(), table.columns.size()));
  check_numbers(table, "time_s", table.time_s, true, file);
  check_numbers(table, "rel_error", table.rel_error, false, file);
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    check_numbers(table, table.columns[c], table.values[c], false, file);
  }
  const InputPlace place{file, 0, table.op + "/repeats"};
  refuse_if(table.repeats.size() != table.size(), place,
            fmt::format("has {} values, where the table has {} times.", table.repeats.size(), table.size()));
  refuse_if(std::any_of(table.repeats.begin(), table.repeats.end(), [](std::int64_t n) { return n < 0; }), place,
            "a number of executions is negative.");
}

}  // namespace

std::span<const ProvenanceField> provenance_fields() { return kProvenanceFields; }

std::size_t PointTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    throw InputError({"", 0, op}, fmt::format("the points of '{}' have no column '{}'; there are: {}.", op, name,
                                              fmt::join(columns, ", ")));
  }
  return static_cast<std::size_t>(found - columns.begin());
}

void PointTable::add(std::span<const double> parameters, double time, double relative_error, std::int64_t count) {
  EPSIM_CHECK(parameters.size() == columns.size(), "one parameter per column");
  values.resize(columns.size());
  for (std::size_t c = 0; c < parameters.size(); ++c) {
    values[c].push_back(parameters[c]);
  }
  time_s.push_back(time);
  rel_error.push_back(relative_error);
  repeats.push_back(count);
}

const PointTable* PointFile::find(std::string_view op) const {
  const auto found = std::ranges::find(tables, op, &PointTable::op);
  return found == tables.end() ? nullptr : &*found;
}

void validate_points(const PointFile& points, const std::string& file) {
  for (std::size_t t = 0; t < points.tables.size(); ++t) {
    check_table(points.tables[t], file);
    for (std::size_t before = 0; before < t; ++before) {
      refuse_if(points.tables[before].op == points.tables[t].op, {file, 0, points.tables[t].op},
                "the operator has two tables.");
    }
  }
}

bool same_gpu(const std::string& a, const std::string& b) { return gpu_key(a) == gpu_key(b); }

}  // namespace epsim
