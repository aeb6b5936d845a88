// A finished point of a sweep, and the text that the sweep's folder keeps of it:
//
//   sweep.json           the inputs: program, scenario, overrides, axes, policies, measure
//   points.pack          the finished points (sim/study/job_store.h)
//   results.csv, .h5 ... from all points, once the last one is finished
//   verdict.txt          of a goodput sweep, for `epsim report`: the sentence that the terminal ends with
//
// metrics.md defines the names in these files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "sim/report/sweep_table.h"
#include "sim/study/job_store.h"

namespace epsim {

inline constexpr StoreKind kSweepStore{"sweep", "sweep.json", "points"};

// What became of one point. Nothing in it depends on time, threads or the order in which points were run.
struct SweepPoint {
  std::size_t index = 0;
  std::string error;                // empty: it has figures
  std::vector<InputFile> inputs;    // that it read
  std::vector<ResultTable> tables;  // "results" with one row; with goodput, "knees" and "curve" too
};

std::string stored_text(const SweepPoint& point);
// A word for the store: whether the point failed, and a hash of its inputs and columns.
std::string label_of(const SweepPoint& point);
inline constexpr const char* kFailedLabel = "failed";  // its beginning
// Nothing when the text is damaged or of another layout.
std::optional<SweepPoint> stored_point(const std::string& text);

// Whether input files are as finished points read them.
class UnchangedInputs {
 public:
  // Throws InputError when a file that the point read has changed since.
  void check(const SweepPoint& point);

 private:
  std::vector<InputFile> seen_;  // as they are now
};

}  // namespace epsim
