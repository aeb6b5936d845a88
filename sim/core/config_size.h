// How large a YAML document is, before a tree is made of it. Private to sim/core.
#pragma once

#include <string>

namespace epsim {

// Throws InputError where the text has more values or levels than limits.h allows, each alias counted as all that it
// repeats; YAML::Exception where the text is no YAML.
void check_yaml_size(const std::string& text, const std::string& name);

}  // namespace epsim
