// A finished search as JSON, for the folders that keep searches from one run of the program to the next. Every number
// reads back as it was.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/study/goodput_result.h"

namespace epsim {

nlohmann::json stored_json(const GoodputSearch& search);
// Throws nlohmann::json::exception when it is not what stored_json() made.
GoodputSearch goodput_search_in(const nlohmann::json& json);

// The same as a file of its own. Nothing when the text is damaged or of another layout: the work is then done again.
std::string stored_text(const GoodputSearch& search);
std::optional<GoodputSearch> stored_goodput_search(const std::string& text);

}  // namespace epsim
