// What a paper's claims need, and what they come to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/reproduce/claim.h"
#include "sim/reproduce/gather.h"

namespace epsim {

// Which part of a study is run: all setups, or these alone, and then no claim that takes long.
struct PaperScope {
  std::optional<std::vector<std::string>> setups;
  bool has(const std::string& setup) const;
};

// The setups of a figure that are in the scope; none where the claim takes long and the scope is a part.
std::vector<std::pair<std::string, std::string>> setups_in(const PaperScope& scope, const PaperClaim& claim,
                                                           const ClaimFigure& figure);

// What the claims' figures take, of the setups in the scope.
PaperNeeds needs_of(const PaperStudy& paper, const std::vector<PaperClaim>& claims, const PaperScope& scope);

// The figures of a claim, those without a setup in the scope left out. `k`: of the knee, where it is not the searches'.
std::vector<ClaimRow> rows_of(const PaperClaim& claim, const PaperEvidence& evidence, const GatherOptions& options,
                              const PaperScope& scope, const std::optional<double>& k = {});

}  // namespace epsim
