// The table of scenario keys (sim/scenario/scenario_keys.h) as text, as a page and as a JSON Schema.
#pragma once

#include <string>

namespace epsim::app {

// The keys below `prefix`, all with an empty one. Throws InputError when there are none.
std::string keys_text(const std::string& prefix);
// The same as a JSON object: its `keys` are a list of objects with key, value, default, meaning and, of keys that some
// kinds have only, those kinds.
std::string keys_json(const std::string& prefix);
// docs/keys.md.
std::string keys_markdown();
// JSON Schema, draft 2020-12, of a scenario file.
std::string scenario_schema();

}  // namespace epsim::app
