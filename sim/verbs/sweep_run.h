// A sweep as a function: every combination of the axes' values, under every policy, each an independent run.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sim/study/goodput.h"
#include "sim/study/job_store.h"
#include "sim/verbs/sweep_point.h"

namespace epsim {

struct SweepControl {
  bool overwrite = false;
  bool retry_failed = false;                // points that failed count as not finished
  Sharing sharing = {};                     // its drop_label is not used
  std::vector<std::string> shown = {};      // columns that the outcome's tables have; empty: all
  const std::atomic<bool>* stop = nullptr;  // once true, no point starts and those that run are dropped
  // Called before the first point runs with how many are to run, and how many are finished already; then after each
  // point, one at a time.
  std::function<void(std::size_t to_run, std::size_t finished_before)> on_start;
  std::function<void()> on_point;
  // With goodput: how far a point's search is. From several threads at once; may be empty.
  OnServing on_serving = {};
};

// Points: the combination of axes changes slowest, the policy fastest.
struct SweepOutcome {
  bool interrupted = false;              // then only what was finished is on disk, and nothing else is filled in
  std::size_t points = 0, failed = 0;    // all of them; those that have an error
  std::size_t listed_failed = 0;         // of policies that the request lists, not of those added to compare with
  std::vector<std::string> errors = {};  // the first few
  std::vector<ResultTable> tables = {};  // as written: "results" with a row per point; "knees" and "curve" with
                                         // goodput; "intervals" over several seeds
};

// Whether the folder holds this sweep. Throws as run_sweep() does.
bool holds_sweep(const std::filesystem::path& folder, const SweepRequest& request);

// Makes the folder of the sweep, or checks that it is this one's, for processes that come later. Returns the number of
// points that are left. Throws as run_sweep() does.
std::size_t prepare_sweep(const SweepRequest& request, const std::filesystem::path& folder,
                          const SweepControl& control);

// Runs what is not finished yet in `folder` and no other process runs, on as many threads as the caller lets oneTBB
// have; then writes the tables (NAME.csv, and all of them in results.h5). Neither threads nor processes nor kills nor
// restarts show in any file. A point whose scenario cannot be read or run is recorded with its error. Throws InputError
// when no combination can be read at all or none knows one of the policies, and when a file that a finished point read
// has changed, what JobStore throws, and ShardFinished.
SweepOutcome run_sweep(const SweepRequest& request, const std::filesystem::path& folder, const SweepControl& control);

}  // namespace epsim
