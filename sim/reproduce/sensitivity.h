// Which inputs move a claim's figure most.
//   Asks   : each input is changed alone, by what is not known of it, and the claims are worked out again.
//   Ignores: changes of several inputs together; claims that take long.
//   Setups : those that the paper's file names for it, under the first seed, both before and after a change; so the
//            figures differ a little from those of the claims themselves.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/gather.h"

namespace epsim {

// A figure of a claim before and after a change.
struct ClaimMovement {
  std::string claim, statement;
  std::string input, change;
  double before = 0, after = 0;
};

// Every figure that needs prices, of those of `claims` that the setups above tell, under every input; by claim.
// `options` are those of the reproduction. Throws what gather() throws.
std::vector<ClaimMovement> movements_of(const PaperStudy& paper, const std::vector<PaperClaim>& claims,
                                        const GatherOptions& options, const GatherControl& control);

// Gives each row the two largest movements of its figure, largest first.
void add_movements(std::vector<ClaimRow>& rows, std::span<const ClaimMovement> movements);

// sensitivity.csv: one row per figure and input.
void write_sensitivity_csv(std::ostream& out, std::span<const ClaimMovement> movements);

}  // namespace epsim
