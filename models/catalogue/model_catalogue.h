// Models by name or by file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/core/config.h"
#include "sim/domain/moe_spec.h"

namespace epsim {

struct ModelItem {
  std::string name;
  std::vector<std::string> aliases;
  std::string summary;  // one sentence
};

// The built-in architectures (models/architectures/*.yaml), in the order of the build.
std::vector<ModelItem> list_models();

// A built-in model by name or alias (case, blanks, hyphens and underscores do not matter), or a file: .json is a
// Hugging Face config.json, .yaml or .yml has the keys of a file in models/architectures. Throws InputError for an
// unknown name, listing all with the nearest first, and for bad files, with file and line or key.
MoeSpec find_model(const std::string& name_or_path);
// That which a name or another name of it stands for; none where the catalogue has neither.
std::optional<MoeSpec> shipped_model(const std::string& name);

// From a document in the schema of models/architectures.
MoeSpec read_model(const Config& document);

}  // namespace epsim
