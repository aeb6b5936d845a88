#include "sim/app/seeds.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/app/command_line.h"
#include "sim/scenario/read_scenario.h"

namespace epsim::app {

namespace po = boost::program_options;

namespace {

constexpr int kMostSeeds = 100;

bool same_arrivals(const RequestTrace& a, const RequestTrace& b) {
  return std::equal(a.requests.begin(), a.requests.end(), b.requests.begin(), b.requests.end(),
                    [](const Request& x, const Request& y) {
                      return x.arrival == y.arrival && x.input_tokens == y.input_tokens &&
                             x.output_tokens == y.output_tokens;
                    });
}

}  // namespace

void add_seeds_option(po::options_description& options, int fallback) {
  options.add_options()("seeds", po::value<int>()->default_value(fallback),
                        "number of seeds of requests and routing, from the scenario's own on");
}

// The file is read anew for each seed.
std::vector<Scenario> scenarios_by_seed(const po::variables_map& values, const std::vector<std::string>& labels,
                                        const std::vector<std::string>& assignments) {
  const int seeds = values["seeds"].as<int>();
  if (seeds < 1 || seeds > kMostSeeds) {
    throw InputError({"", 0, "seeds"}, fmt::format("{} seeds; 1 to {} are allowed.", seeds, kMostSeeds));
  }
  std::vector<Scenario> out;
  for (int s = 0; s < seeds; ++s) {
    Config config = open_scenario(values);
    for (const std::string& assignment : assignments) {
      config.set(assignment);
    }
    if (s > 0) {
      config.set(fmt::format("seed={}", static_cast<std::int64_t>(out.front().seed) + s));
    }
    out.push_back(read_scenario(config, labels));
  }
  return out;
}

bool same_requests(std::span<const Scenario> by_seed) {
  return std::all_of(by_seed.begin(), by_seed.end(),
                     [&](const Scenario& s) { return same_arrivals(s.requests, by_seed.front().requests); });
}

}  // namespace epsim::app
