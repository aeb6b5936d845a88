// One setup in detail: the paper's three policies side by side, at a rate that each of them sustains.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/plan_cache.h"
#include "sim/cluster/run_result.h"
#include "sim/reproduce/craft_evidence.h"
#include "sim/scenario/scenario.h"

namespace epsim {

// In the order of a comparison: changes are against the first.
inline constexpr std::array<std::string_view, 3> kExamplePolicies = {"base", "cra8", "eplb"};
// Of the searches' requests: a third shows what the runs are like.
inline constexpr std::int64_t kExamplePart = 3;

struct CraftExample {
  std::string setup;
  std::array<double, kExamplePolicies.size()> knees{};  // requests/s, by policy, under the first seed
  double rate = 0;                                      // requests/s: kNearSaturation of the lowest of them
  std::int64_t requests = 0;                            // of the run
  std::string scenario;  // YAML: the setup under the first seed, with that rate and number
};

// The first of the paper's setups (DE8 comes first) on which all three policies were searched; none where there is no
// such setup, or where --set replaced its requests by some without a rate and a number of their own.
std::optional<CraftExample> choose_craft_example(const CraftEvidence& evidence);

// What `epsim compare` would run, policies in the order of kExamplePolicies. Throws InputError.
Scenario craft_example_scenario(const CraftExample& example);

// One run per policy of the scenario, side by side; the result does not depend on threads. Throws StudyInterrupted
// once `stop` is set.
std::vector<RunResult> run_craft_example(const Scenario& scenario, const std::atomic<bool>& stop,
                                         PlanCache* plans = nullptr);

// A row per policy: its knee beside the rate of the run (sim/report/metrics.md).
void write_craft_example_csv(std::ostream& out, const CraftExample& example);

}  // namespace epsim
