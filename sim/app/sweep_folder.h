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

#include "sim/report/json.h"
#include "sim/report/sweep_table.h"

namespace epsim::app {

// What became of one point. Nothing in it depends on time, threads or the order in which points were run.
struct SweepPoint {
  std::size_t index = 0;
  std::string error;                // empty: it has figures
  std::vector<InputFile> inputs;    // that it read
  std::vector<ResultTable> tables;  // "results" with one row; with goodput, "knees" and "curve" too
};

class SweepFolder {
 public:
  // Makes the folder, or goes on with one that has the same `manifest` (a JSON text). Throws InputError when another
  // process works there, when the folder holds something else or a sweep of other inputs (naming the differences), and
  // RunFailed when the disk does not take it. `overwrite` starts anew.
  SweepFolder(const std::filesystem::path& target, const std::string& manifest, bool overwrite);
  ~SweepFolder();
  SweepFolder(const SweepFolder&) = delete;
  SweepFolder& operator=(const SweepFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // The finished point, or nothing. A file that is damaged (by a crash of the machine, say) counts as not finished.
  // Throws InputError when a file that the point read has changed since.
  std::optional<SweepPoint> load(std::size_t index);
  // Throws RunFailed. Safe to call from several threads for different points.
  void save(const SweepPoint& point) const;

 private:
  std::filesystem::path point_file(std::size_t index) const;
  void take_lock();
  void check_manifest(const std::string& manifest) const;
  void remove_leftovers() const;
  void check_inputs(const SweepPoint& point);

  std::filesystem::path path_;
  int lock_ = -1;
  std::vector<InputFile> seen_;  // input files as they are now
};

// Name, size and content's hash of a file; its name as an absolute path.
InputFile describe_file(const std::filesystem::path& file);

}  // namespace epsim::app
