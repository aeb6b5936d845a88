#include "sim/verbs/capacity_folder.h"

#include <string>
#include <vector>

#include "sim/core/files.h"
#include "sim/report/capacity_report.h"
#include "sim/report/html_report.h"
#include "sim/verbs/launch/capacity_launch.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

// What an earlier answer in the folder left for its deployment.
std::vector<fs::path> hand_over_files(const fs::path& folder) {
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name == "recommended.yaml" || name == "launch.sh" || name == "leaderworkerset.yaml" ||
        name.starts_with("experts-")) {
      out.push_back(entry.path());
    }
  }
  return out;
}

}  // namespace

void write_capacity(const fs::path& folder, const CapacityPlan& plan, const CapacityQuestion& question) {
  for (const fs::path& file : hand_over_files(folder)) {
    fs::remove(file);
  }
  for (const ResultTable& table :
       {candidates_table(plan), deployments_table(plan), prices_table(plan), what_ifs_table(plan)}) {
    write_file_atomically(folder / (table.name + ".csv"), table_csv(table));
  }
  write_file_atomically(folder / "capacity.json", capacity_json(plan, EPSIM_VERSION));
  if (plan.feasible) {
    const CapacityOption& chosen = plan.study.options[plan.order.front()];
    write_file_atomically(folder / "recommended.yaml", scenario_of(question, chosen));
    for (const auto& [name, content] : launch_files(question, chosen)) {
      write_file_atomically(folder / name, content);
    }
  }
  write_file_atomically(folder / "report.html", report_of(folder, EPSIM_VERSION));
}

}  // namespace epsim
