// Quantities as text, the units that they may be written in, and lists.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/key.h"

namespace epsim {

// "60s", "10min", "250ms", "3us" / "4GiB", "512MB" / "50GB/s", "100Gb/s" / "312TF/s" / "2.5/s": std::nullopt with
// `problem` filled in when the text is not such a quantity.
std::optional<double> parse_quantity(const std::string& text, const std::string& dimension, std::string& problem);

// "s", "ms", ... for a time; empty for what is not a quantity.
std::vector<std::string> units_of(ValueType type);

// The words of "a,b,c" that are not empty.
std::vector<std::string> split_list(const std::string& text);

}  // namespace epsim
