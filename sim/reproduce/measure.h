// What was measured of a paper's setups: for each policy its plan, and studies under every seed.
//
//   loads       the loads that policies plan from: of a layer, by its number, in place of a policy
//   plan        the plan and the memory that it takes; nothing is run
//   goodput     the search for the knee of mean TTFT against the request rate
//   near_knee   the search's own run at the highest rate that it found acceptable, filling and emptying included
//   below_knee  a run at a share of the lowest knee of the policies that the file names
//   saturated   a run to which far more requests come than can be served
//   run         the scenario's own requests, as `epsim compare` serves them
//
// The metrics of runs are those of summary.json, by their names.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/reproduce/expression.h"
#include "sim/study/goodput_result.h"

namespace epsim {

enum class PaperJob : std::uint8_t { kGoodput, kBelowKnee, kSaturated, kRun };
inline constexpr std::string_view kPaperJobNames[] = {"goodput", "below_knee", "saturated", "run"};
inline constexpr std::size_t kPaperJobs = 4;
// The one that a study's figures are of; none for plans.
std::optional<PaperJob> job_of(std::string_view study);

// Throws std::invalid_argument unless the study and its metric exist.
void check_metric(const MetricOf& metric);

using Numbers = std::map<std::string, double, std::less<>>;

// Of one policy on one setup under one seed.
struct JobFigures {
  std::optional<GoodputSearch> search;  // of a goodput search; `numbers` are then those near the knee
  Numbers numbers;                      // by metric; those without a value are left out
};

struct PolicyEvidence {
  Numbers plan;
  std::array<std::vector<JobFigures>, kPaperJobs> by_seed;  // [job][seed]
  const std::vector<JobFigures>& of(PaperJob job) const { return by_seed[static_cast<std::size_t>(job)]; }
};

struct SetupEvidence {
  std::string scenario;    // its name
  std::uint64_t seed = 0;  // the first
  std::string resolved;    // the scenario under it
  Numbers loads;           // by metric and layer: "top2_share 51"
  std::map<std::string, PolicyEvidence> policies;
};

using PaperEvidence = std::map<std::string, SetupEvidence>;  // by setup

// Under which seed a metric is read, and a knee at which k: at its own, at another, or the saturation throughput.
struct Reading {
  std::size_t seed = 0;
  std::optional<double> k = {};
  bool saturation = false;
};

// The metric of a policy on a setup; not a number where it has no value. Only evidence that was gathered may be asked for.
Measured measured(const PaperEvidence& evidence, const std::string& setup, const MetricOf& metric,
                  const Reading& reading);

// A finished job as the text that its folder keeps, by seed; every number reads back as it was. Nothing when the text is
// damaged or of another layout: the job is then done again.
std::string stored_text(const std::vector<JobFigures>& by_seed);
std::optional<std::vector<JobFigures>> stored_figures(const std::string& text);

}  // namespace epsim
