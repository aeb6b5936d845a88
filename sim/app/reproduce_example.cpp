#include "sim/app/reproduce_example.h"

#include <sstream>

#include "sim/app/inputs.h"
#include "sim/core/files.h"
#include "sim/core/interrupt.h"
#include "sim/report/writer.h"
#include "sim/reproduce/craft_example.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFolder = "example-run";
// What the runs were chosen by. All else that they depend on is in reproduce.json, which every resumption must equal.
constexpr const char* kTable = "example_run.csv";

}  // namespace

void keep_example_run(const fs::path& folder, const CraftEvidence& evidence, PlanCache& plans) {
  const fs::path target = folder / kFolder;
  const std::optional<CraftExample> example = choose_craft_example(evidence);
  std::ostringstream chosen_by;
  if (example) {
    write_craft_example_csv(chosen_by, *example);
    if (fs::exists(target / kTable) && read_file(target / kTable) == chosen_by.str()) {
      return;
    }
  }
  fs::remove_all(target);  // of other claims, from before
  if (!example) {
    return;
  }
  const Scenario scenario = craft_example_scenario(*example);
  const std::vector<RunResult> runs = run_craft_example(scenario, interrupted(), &plans);
  OutputFolder out(target, false, kTable);
  std::vector<RunSummary> summaries;
  for (const RunResult& run : runs) {
    summaries.push_back(summarize(run));
  }
  const auto seed = static_cast<std::uint64_t>(scenario.seed);
  write_comparison_folder(out.path(), runs, one_seed(summaries, seed), describe_inputs(scenario));
  write_file_atomically(out.path() / kTable, chosen_by.str());
  out.commit();
}

}  // namespace epsim::app
