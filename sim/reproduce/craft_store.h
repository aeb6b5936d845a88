// Finished work of a reproduction as the text that its folder keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/reproduce/craft_evidence.h"

namespace epsim {

// Of one policy on one setup, by seed; Figures: SearchedPolicy, FixedRate, Saturated. As JSON; every number reads back
// as it was. Reading gives nothing when the text is damaged or of another layout: the work is then done again.
template <class Figures>
std::string stored_text(const std::vector<Figures>& by_seed);
template <class Figures>
std::optional<std::vector<Figures>> stored_by_seed(const std::string& text);

}  // namespace epsim
