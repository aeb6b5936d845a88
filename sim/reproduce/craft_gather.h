// Gathers what CRAFT's setups come to, once for all claims.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "sim/reproduce/craft_evidence.h"
#include "sim/reproduce/craft_store.h"

namespace epsim {

struct GatherControl {
  const std::atomic<bool>* stop = nullptr;  // once true, runs end and SearchInterrupted is thrown
  CraftStore* store = nullptr;              // what it has is not done again, and what is done goes there at once
  // Told of each setup that is done, one at a time.
  std::function<void(const std::string& setup, std::size_t all)> on_setup;
};

// Gathers what is needed, setups in parallel; the result depends neither on threads nor on what was in the store.
// Throws what its parts throw (an InputError names the setup), SearchInterrupted when `stop` was set.
CraftEvidence gather_craft_evidence(std::span<const CraftNeed> needs, const CraftStudyOptions& options,
                                    const GatherControl& control);

}  // namespace epsim
