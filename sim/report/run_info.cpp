#include "sim/report/run_info.h"

#include <algorithm>

#include "sim/core/mapped.h"

namespace epsim {
namespace {

bool same_arrivals(const RequestTrace& a, const RequestTrace& b) {
  return std::equal(a.requests.begin(), a.requests.end(), b.requests.begin(), b.requests.end(),
                    [](const Request& x, const Request& y) {
                      return x.arrival == y.arrival && x.input_tokens == y.input_tokens &&
                             x.output_tokens == y.output_tokens;
                    });
}

}  // namespace

RunInfo describe_inputs(const Scenario& scenario, const std::string& version) {
  RunInfo info;
  info.version = version;
  info.scenario = scenario.name;
  info.seed = static_cast<std::uint64_t>(scenario.seed);
  info.resolved_yaml = scenario.resolved;
  // Names as resolved.yaml has them, so that a run of that gives the same.
  info.inputs = mapped(scenario.input_files, describe_file);
  return info;
}

bool same_requests(std::span<const Scenario> by_seed) {
  return std::all_of(by_seed.begin(), by_seed.end(),
                     [&](const Scenario& s) { return same_arrivals(s.requests, by_seed.front().requests); });
}

}  // namespace epsim
