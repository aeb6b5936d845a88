// YAML as JSON, for readers that have no YAML.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace epsim {

// The document as JSON, every scalar as a text. `name` stands for it in messages; text that is not YAML is an
// InputError.
nlohmann::ordered_json yaml_as_json(const std::string& yaml, const std::string& name);

}  // namespace epsim
