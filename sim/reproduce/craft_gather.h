// Gathers what CRAFT's setups come to, once for all claims.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "sim/cluster/plan_cache.h"
#include "sim/reproduce/craft_evidence.h"
#include "sim/study/job_store.h"

namespace epsim {

struct GatherControl {
  const std::atomic<bool>* stop = nullptr;  // once true, runs end and StudyInterrupted is thrown
  const JobStore* store = nullptr;          // what it has is not done again; null: nothing is kept
  std::string key_prefix = {};              // of the keys in the store
  PlanCache* plans = nullptr;               // of the reproduction
  // Called for each setup that is done, one at a time.
  std::function<void(const std::string& setup, std::size_t all)> on_setup;
};

// Gathers what is needed, setups in parallel; the result depends neither on threads nor on what was in the store.
// Throws what its parts throw (an InputError names the setup), StudyInterrupted when `stop` was set.
CraftEvidence gather_craft_evidence(std::span<const CraftNeed> needs, const CraftStudyOptions& options,
                                    const GatherControl& control);

}  // namespace epsim
