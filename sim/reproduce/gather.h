// Makes the runs that a paper's figures need, once for all claims.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/cluster/plan_cache.h"
#include "sim/reproduce/measure.h"
#include "sim/reproduce/paper_study.h"
#include "sim/scenario/scenario.h"
#include "sim/study/job_store.h"

namespace epsim {

// Which jobs, [setup][policy][job]; a policy without any is planned alone.
using PaperNeeds = std::map<std::string, std::map<std::string, std::array<bool, kPaperJobs>>>;

// How a study is run, beside what its file says.
struct GatherOptions {
  int seeds = 1;
  GoodputOptions goodput;
  std::vector<std::string> overrides;                       // on every setup, after the file's own
  std::map<std::string, std::vector<std::string>> more_of;  // by setup, after those
};

struct GatherControl {
  const std::atomic<bool>* stop = nullptr;  // once true, runs end and StudyInterrupted is thrown
  const JobStore* store = nullptr;          // what it has is not done again; null: nothing is kept
  std::string key_prefix = {};              // of the keys in the store
  PlanCache* plans = nullptr;               // of the reproduction
  // Called for each setup that is done, one at a time.
  std::function<void(const std::string& setup, std::size_t all)> on_setup;
};

// The scenario of a setup with all overrides, those of `more` last. `brief`: with hardly any batches of loads, where
// they are drawn: for a look at it. Throws InputError.
Scenario scenario_of(const PaperStudy& paper, const std::string& setup, const GatherOptions& options,
                     const std::vector<std::string>& policies, const std::vector<std::string>& more = {},
                     bool brief = false);

// Gathers what is needed, setups in parallel; the result depends neither on threads nor on what was in the store.
// Throws what its parts throw (an InputError names the setup), StudyInterrupted when `stop` was set.
PaperEvidence gather(const PaperStudy& paper, const PaperNeeds& needs, const GatherOptions& options,
                     const GatherControl& control);

}  // namespace epsim
