#include "sim/app/seeds.h"

#include <fmt/format.h>

#include "sim/app/command_line.h"
#include "sim/core/refuse.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {

namespace {

constexpr int kMostSeeds = 100;

}  // namespace

void add_seeds_option(po::options_description& options, int fallback) {
  options.add_options()("seeds", po::value<int>()->default_value(fallback),
                        "number of seeds of requests and routing, from the scenario's own on");
}

// The file is read anew for each seed.
std::vector<Scenario> scenarios_by_seed(const po::variables_map& values, const std::vector<std::string>& labels,
                                        const std::vector<std::string>& assignments) {
  const int seeds = values["seeds"].as<int>();
  refuse_if(seeds < 1 || seeds > kMostSeeds, "seeds", fmt::format("{} seeds; 1 to {} are allowed.", seeds, kMostSeeds));
  std::vector<Scenario> out;
  for (int s = 0; s < seeds; ++s) {
    Config config = open_scenario(values);
    config.set(assignments);
    if (s > 0) {
      config.set(fmt::format("seed={}", static_cast<std::int64_t>(out.front().seed) + s));
    }
    out.push_back(read_scenario(config, labels));
  }
  return out;
}

}  // namespace epsim::app
