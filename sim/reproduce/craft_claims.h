// CRAFT's claims (arXiv 2603.28768), each with what it needs and how it is read. Ids, tolerances and the readings of
// the paper's contradictions are told row by row; nothing here changes a price or a load.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/craft_evidence.h"

namespace epsim {

// Which setups a reproduction runs: all fourteen, or with `quick` the three that show most.
struct CraftScope {
  bool quick = false;
  std::span<const std::string_view> only{};  // not empty: these instead
  // Those of `setups` that are run.
  std::vector<std::string_view> of(std::span<const std::string_view> setups) const;
};

struct CraftClaim {
  std::string_view id;
  std::string_view statement;
  // Empty when the scope leaves nothing to check it on.
  std::vector<CraftNeed> (*needs)(const CraftScope& scope);
  std::vector<ClaimRow> (*rows)(const CraftEvidence& evidence, const CraftScope& scope);
};

// In the order of their ids.
std::span<const CraftClaim> craft_claims();

// Those that need plans alone, goodput, goodput against R, or TTFT and ITL beside it, and what follows from the paper's
// figures about what binds a setup; each in the order of ids.
std::span<const CraftClaim> craft_plan_claims();
std::span<const CraftClaim> craft_goodput_claims();
std::span<const CraftClaim> craft_factor_claims();
std::span<const CraftClaim> craft_latency_claims();
std::span<const CraftClaim> craft_bound_claims();

}  // namespace epsim
