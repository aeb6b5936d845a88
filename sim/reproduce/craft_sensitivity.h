// Which inputs move a claim's figure most.
//   Asks   : each input is changed alone, by what is not known of it, and the claims are worked out again.
//   Ignores: changes of several inputs together; claims that sweep R (C02, C27), which would take several times as
//   long;
//            the latency of a single exchange, which no key of a scenario sets (models/hardware/README.md brackets it).
//   Setups : E on all sizes of cluster and one of low skew, under the reproduction's first seed, both before and after
//            a change; so the figures differ a little from those of the claims themselves.
#pragma once

#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/craft_claims.h"
#include "sim/reproduce/craft_gather.h"

namespace epsim {

struct CraftInput {
  std::string_view name, change;
  std::string_view because;                                  // why it is not known better
  std::vector<std::string> (*overrides)(const CraftSetup&);  // none for those below
  CraftMemory (*memory)(CraftMemory) = nullptr;              // another preset
  std::optional<double> k{};                                 // of the knee, from the same searches
};
std::span<const CraftInput> craft_inputs();

// A figure of a claim before and after a change.
struct ClaimMovement {
  std::string claim, statement;
  std::string input, change;
  double before = 0, after = 0;
};

// Every figure that needs prices, of those of `claims` that the setups above tell, under every input; by claim.
// `options` are those of the reproduction. Throws what gather_craft_evidence() throws.
std::vector<ClaimMovement> craft_movements(const std::vector<CraftClaim>& claims, const CraftStudyOptions& options,
                                           const GatherControl& control);

// Gives each row the two largest movements of its figure, largest first.
void add_movements(std::vector<ClaimRow>& rows, std::span<const ClaimMovement> movements);

// sensitivity.csv: one row per figure and input.
void write_sensitivity_csv(std::ostream& out, std::span<const ClaimMovement> movements);

}  // namespace epsim
