// tests/data/small.yaml, OLMoE on two nodes of eight GPUs, with settings as of --set.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario.h"
#include "tests/support/paths.h"

namespace epsim::test {

inline Scenario small(const std::vector<std::string>& settings) {
  Config config = Config::from_file(data_dir() / "small.yaml");
  config.set(settings);
  return read_scenario(config, {});
}

}  // namespace epsim::test
