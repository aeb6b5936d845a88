// Results of the original EPLB program (golden/eplb/README.md in the shared folder), case by case.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace epsim::test {

inline std::vector<nlohmann::json> eplb_golden_cases() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(shared_dir() / "golden" / "eplb")) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<nlohmann::json> cases;
  for (const auto& file : files) {
    std::ifstream in(file);
    cases.push_back(nlohmann::json::parse(in));
  }
  return cases;
}

// The expected array of a tie mode; an absent "stable_" field means that both modes agree.
inline const nlohmann::json& eplb_golden(const nlohmann::json& golden, const std::string& field, bool stable) {
  const std::string own = "stable_" + field;
  return stable && golden.contains(own) ? golden.at(own) : golden.at(field);
}

}  // namespace epsim::test
