// What the tests of `epsim sweep` share.
#pragma once

#include <map>
#include <string>

#include "tests/app/process.h"

namespace epsim::test {

// 3 x 2 x 2 points.
inline const std::string kSweepJob =
    "sweep " + small_scenario() +
    " -q --vary requests.rate=10/s,20/s,40/s --vary cluster.nodes=1,2 --policies base,eplb ";

// Every file below a folder, by its relative name.
inline std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      out[std::filesystem::relative(entry.path(), folder).string()] = slurp(entry.path());
    }
  }
  return out;
}

}  // namespace epsim::test
