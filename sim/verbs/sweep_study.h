// A sweep as a file, for studies with more axes than a command line holds.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/verbs/sweep_axes.h"

namespace epsim {

//   scenario: prefill.yaml
//   measure: goodput                  # options of `epsim sweep`, by their names
//   axes:
//     seed: [1, 2, 3]                 # a key and its values
//     nodes:                          # or a name, whose values have labels and set several keys each
//       p4de: [cluster.node=p4de.24xlarge, cluster.nodes=8]
//       H100: [cluster.node=DGX-H100, cluster.nodes=4]
struct SweepStudy {
  std::filesystem::path scenario;
  std::vector<SweepAxis> axes;
  std::vector<std::pair<std::string, std::string>> options;
};

// Nothing where the file is a scenario: it has no `axes`. Throws InputError.
std::optional<SweepStudy> read_sweep_study(const std::filesystem::path& file);

}  // namespace epsim
