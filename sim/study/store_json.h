// Finished work as JSON that reads back as it was: numbers exact, and a layout number that tells old files from new.
#pragma once

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace epsim {

// A number that may be undefined: null in the file.
inline nlohmann::json stored_number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}
inline double number_in(const nlohmann::json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

// `content` as a file of this layout.
inline std::string store_text(int format, nlohmann::json content) {
  content["format"] = format;
  return content.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// `read` of the file's JSON. Nothing when the text is damaged (by a crash of the machine, say) or of another layout: the
// work is then done again.
template <class Read>
auto read_stored(const std::string& text, int format, Read read) -> std::optional<decltype(read(nlohmann::json()))> {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    if (json.at("format") == format) {
      return read(json);
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace epsim
