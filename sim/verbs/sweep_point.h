// What a sweep is asked for, and one point of it: the scenario with the point's values, run.
#pragma once

#include <array>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/plan_cache.h"
#include "sim/core/files.h"
#include "sim/report/sweep_table.h"
#include "sim/scenario/scenario.h"
#include "sim/study/goodput.h"
#include "sim/study/job_store.h"
#include "sim/verbs/sweep_axes.h"

namespace epsim {

enum class SweepMeasure {
  kRun,      // the figures of summary.json
  kGoodput,  // those of a goodput search under the scenario's seed; vary `seed` for more
};

struct SweepRequest {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;  // "key=value", before those of the axes
  std::vector<SweepAxis> axes;
  std::vector<std::string> policies;  // empty: the scenario's own
  std::size_t added = 0;              // of them, at the end: what add_compared() added
  // Those of `policies` that are no labels: what the caller has made of them. Their plans are not shared.
  std::map<std::string, PolicyChoice> own_policies = {};
  SweepMeasure measure = SweepMeasure::kRun;
  GoodputOptions goodput;
};

// The columns of "results" that a search's rate is in: within an SLO, or at the knee.
inline constexpr std::array<std::string_view, 2> kSearchedRates{"slo_requests_per_s", "knee_requests_per_s"};

// The folder of a sweep:
//
//   sweep.json           the inputs: program, scenario, overrides, axes, policies, measure
//   points.pack          the finished points (sim/study/job_store.h)
//   results.csv, .h5 ... from all points, once the last one is finished
//   verdict.txt          of a goodput sweep, for `epsim report`: the sentence that the terminal ends with
//
// metrics.md defines the names in these files.
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

// Points of a sweep: combinations x policies.
std::size_t count_points(const SweepRequest& request);

// Where several policies are compared, or keys of one vary: adds what tells their gains apart, experts in order and
// placement alone (sim/scenario/compared_policies.h); with `split` the variants of each policy too. Returns a line for
// the user on that. A point of an added policy may fail: experts in order need GPUs that divide the experts.
std::string add_compared(SweepRequest& request, bool split);

// Of the policies, those that no deployment can have, and variants that only split a gain: never recommended.
std::vector<std::string> not_for_use(const SweepRequest& request);

// The scenario of a point. Throws InputError.
Scenario scenario_at(const SweepRequest& request, std::size_t index);

// The first point of the same policy that differs in keys of other policies alone.
std::size_t first_alike(const SweepRequest& request, std::size_t index);
// Whether the point's scenario can be read and its policy names no other, as by `home` or `prefill`: it then has the
// figures of first_alike().
bool names_no_other(const SweepRequest& request, std::size_t index);

// Runs a point; `plans` are those of the sweep. What goes wrong becomes its error; only an interruption is thrown
// (StudyInterrupted).
SweepPoint run_point(const SweepRequest& request, std::size_t index, const std::atomic<bool>* stop, PlanCache& plans,
                     const OnServing& on_serving = {});

// The cells that say which point it is (point, the axes' values, policy, error), and their columns.
std::vector<ResultColumn> lead_columns(const SweepRequest& request);
std::vector<Cell> lead_cells(const SweepRequest& request, const SweepPoint& point);

}  // namespace epsim
