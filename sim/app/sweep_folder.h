// The folder of a sweep: what it was made from, and every finished point, from the start on; so that a sweep which was
// killed goes on where it stopped.
//
//   sweep.json           the inputs: program, scenario, overrides, axes, policies, measure
//   points/000012.json   one finished point each, written to a temporary name and renamed
//   results.csv, .h5 ... from all points, once the last one is finished
//
// metrics.md defines the names in these files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/app/work_folder.h"
#include "sim/report/sweep_table.h"

namespace epsim::app {

// What became of one point. Nothing in it depends on time, threads or the order in which points were run.
struct SweepPoint {
  std::size_t index = 0;
  std::string error;                // empty: it has figures
  std::vector<InputFile> inputs;    // that it read
  std::vector<ResultTable> tables;  // "results" with one row; with goodput, "knees" and "curve" too
};

// Whether the folder holds a sweep with this manifest.
bool holds_sweep(const std::filesystem::path& folder, const std::string& manifest);

class SweepFolder {
 public:
  // As WorkFolder.
  SweepFolder(const std::filesystem::path& target, const std::string& manifest, bool overwrite);

  const std::filesystem::path& path() const { return folder_.path(); }

  // The finished point, or nothing. A file that is damaged (by a crash of the machine, say) counts as not finished.
  // Throws InputError when a file that the point read has changed since.
  std::optional<SweepPoint> load(std::size_t index);
  // Throws RunFailed. Safe to call from several threads for different points.
  void save(const SweepPoint& point) const;

 private:
  void check_inputs(const SweepPoint& point);

  WorkFolder folder_;
  std::vector<InputFile> seen_;  // input files as they are now
};

}  // namespace epsim::app
