// The folder of a reproduction: what `epsim report` draws.
//
//   claims.json       the claims
//   setups.csv        the metrics that they are worked out from, by setup, policy and study, means over seeds
//   sensitivity.csv   how inputs move them, where that was asked for
//   SETUP/            a setup whose policies were searched, in the form of `epsim goodput`
#pragma once

#include <filesystem>
#include <iosfwd>
#include <span>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/gather.h"
#include "sim/reproduce/sensitivity.h"

namespace epsim {

// Into `folder`, which exists; files of its own from before are replaced. Throws RunFailed when the disk does not take
// it.
void write_paper_folder(const std::filesystem::path& folder, std::span<const ClaimRow> rows, const ClaimsInfo& info,
                        const PaperStudy& paper, const PaperEvidence& evidence, const GatherOptions& options,
                        std::span<const ClaimMovement> movements);

// setups.csv. Equal evidence gives equal bytes.
void write_setups_csv(std::ostream& out, const PaperStudy& paper, const PaperEvidence& evidence);

}  // namespace epsim
