// The folder of a reproduction of CRAFT: what `epsim report` draws.
//
//   claims.json                         the claims
//   setups.csv, setup_layers.csv, setup_gains.csv, fixed_rates.csv
//                                       what they were worked out from (craft_tables.h)
//   sensitivity.csv                     how inputs move them, where that was asked for
//   SETUP/                              a setup whose policies were searched, in the form of `epsim goodput`
//   example-run/                        one setup's policies side by side, in the form of `epsim compare`
//                                       (craft_example.h); it comes before the rest and is left alone here
#pragma once

#include <filesystem>
#include <span>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/craft_evidence.h"
#include "sim/reproduce/craft_sensitivity.h"

namespace epsim {

// Into `folder`, which exists; files of its own from before are replaced. Throws RunFailed when the disk does not take
// it.
void write_craft_folder(const std::filesystem::path& folder, std::span<const ClaimRow> rows, const ClaimsInfo& info,
                        const CraftEvidence& evidence, const CraftStudyOptions& options,
                        std::span<const ClaimMovement> movements);

}  // namespace epsim
