// JSON of a run and of a comparison: keys in a fixed order, units in their names, null where a figure is not defined.
// metrics.md defines every key.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/core/files.h"
#include "sim/report/comparison.h"

namespace epsim {

// What a run was made from.
struct RunInfo {
  std::string version;   // of the program
  std::string scenario;  // its name
  std::uint64_t seed = 0;
  std::string resolved_yaml;  // the scenario with every default filled in
  std::vector<InputFile> inputs;
};

// The head of a document: format, version, scenario, seed and inputs.
nlohmann::ordered_json document_of(int format, const RunInfo& info);

// Whole documents with a final newline. Text that is not UTF-8 has its bad bytes replaced.
std::string summary_json(const RunSummary& run, const RunInfo& info);
std::string comparison_json(const Comparison& runs, const RunInfo& info);

}  // namespace epsim
