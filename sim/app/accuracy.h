// `epsim validate --accuracy`: what epsim predicts for things that others measured, and how far off it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace epsim::app {

// One line of the table. `outside`: the reason why the row is shown but not held to its band.
struct AccuracyRow {
  std::string group, what;
  std::string unit = "ms";
  double predicted = 0, measured = 0;
  double band = 0;  // of |predicted / measured - 1|
  std::string note, outside;
  double error() const { return predicted / measured - 1; }
  bool inside() const { return error() <= band && error() >= -band; }
};

// Errors of a profile's operator on held-out points, and the bands for their median and 95th percentile.
struct HeldOutRow {
  std::string machine, what;
  std::int64_t points = 0;
  double median = 0, p95 = 0, worst = 0, median_band = 0, p95_band = 0;
  std::optional<double> noise_p95;  // of repeated rows of the source from each other; nothing where it repeats none
  std::string outside;              // why a row that leaves its bands is shown but not held to them; empty = it is held
  bool inside() const { return median <= median_band && p95 <= p95_band; }
};

struct AccuracyTable {
  std::vector<HeldOutRow> held_out;
  std::vector<AccuracyRow> rows;
  // Rows that leave their band without a stated reason.
  int failures() const;
};

// Predicts everything that `folder`/facts.yaml states (its schema is at its head).
AccuracyTable compute_accuracy(const std::filesystem::path& folder);
std::string accuracy_text(const AccuracyTable& table);
std::string accuracy_json(const AccuracyTable& table);

}  // namespace epsim::app
