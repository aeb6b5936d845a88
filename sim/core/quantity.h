// The units that a quantity may be written in.
#pragma once

#include <string>
#include <vector>

#include "sim/core/config.h"

namespace epsim {

// "s", "ms", ... for a time; empty for what is not a quantity.
std::vector<std::string> units_of(ValueType type);

}  // namespace epsim
