// YAML as JSON, for readers that have no YAML.
#pragma once

#include <string>

namespace epsim {

// The document as JSON, every scalar as a text. `name` stands for it in messages; text that is not YAML is an
// InputError.
std::string yaml_to_json(const std::string& yaml, const std::string& name);

}  // namespace epsim
