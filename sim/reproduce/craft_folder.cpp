#include "sim/reproduce/craft_folder.h"

#include <sstream>

#include "sim/core/files.h"
#include "sim/report/goodput_writer.h"
#include "sim/reproduce/craft_tables.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;

// The policies of a setup that were searched.
GoodputStudy study_of(const SetupEvidence& setup, const CraftStudyOptions& options) {
  GoodputStudy out;
  out.options = options.goodput;
  out.seeds = options.seeds;
  for (const auto& [policy, found] : setup.policies) {
    if (!found.searches.empty()) {
      out.policies.push_back(policy);
      out.searches.insert(out.searches.end(), found.searches.begin(), found.searches.end());
    }
  }
  return out;
}

void write_study(const fs::path& folder, const std::string& setup, const SetupEvidence& evidence,
                 const GoodputStudy& study, const std::string& version) {
  fs::create_directories(folder);
  RunInfo info;
  info.version = version;
  info.scenario = "craft-" + setup;
  info.seed = study.searches.front().seed;
  info.resolved_yaml = evidence.resolved;
  write_goodput(folder, study, info);
}

}  // namespace

void write_craft_folder(const fs::path& folder, std::span<const ClaimRow> rows, const ClaimsInfo& info,
                        const CraftEvidence& evidence, const CraftStudyOptions& options,
                        std::span<const ClaimMovement> movements) {
  for (const CraftSetup& setup : craft_setups()) {
    fs::remove_all(folder / setup.name);  // of other claims, from before
  }
  for (const auto& [name, setup] : evidence) {
    const GoodputStudy study = study_of(setup, options);
    if (!study.searches.empty()) {
      write_study(folder / name, name, setup, study, info.version);
    }
  }
  using Write = void (*)(std::ostream&, const CraftEvidence&);
  for (const auto& [name, write] : {std::pair<const char*, Write>{"setups.csv", write_setups_csv},
                                    {"setup_layers.csv", write_setup_layers_csv},
                                    {"setup_gains.csv", write_setup_gains_csv},
                                    {"fixed_rates.csv", write_fixed_rates_csv}}) {
    std::ostringstream text;
    write(text, evidence);
    write_file_atomically(folder / name, text.str());
  }
  fs::remove(folder / "sensitivity.csv");
  if (!movements.empty()) {
    std::ostringstream text;
    write_sensitivity_csv(text, movements);
    write_file_atomically(folder / "sensitivity.csv", text.str());
  }
  write_file_atomically(folder / "claims.json", claims_json(rows, info));
}

}  // namespace epsim
