// What a run writes step by step, as far as it was asked for: --timeline and --steps.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>

#include "sim/app/po.h"
#include "sim/cluster/run_result.h"
#include "sim/report/perfetto.h"
#include "sim/report/steps_csv.h"
#include "sim/scenario/scenario.h"

namespace epsim::app {

// Throws InputError where --timeline names a step that no run of the scenario has: each takes a token at least.
void check_timeline(const po::variables_map& values, const Scenario& scenario);

struct Recordings {
  std::optional<TimelineRecorder> timeline;
  std::ofstream steps_file;
  std::optional<StepsCsv> steps;
  StepRecorders all;

  // steps.csv is written to `folder` while the run goes on. Throws InputError.
  Recordings(const po::variables_map& values, const std::filesystem::path& folder);
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // After the run: completes the files in `folder`. Throws RunFailed.
  void finish(const std::filesystem::path& folder, const RunResult& run);
  // Prints what became of the timeline, on standard error where there is none although it was asked for: then false.
  bool print_timeline(const RunResult& run, const std::filesystem::path& target) const;
};

}  // namespace epsim::app
