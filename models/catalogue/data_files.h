// The catalogue files that are compiled into the program (scripts/cmake/EpsimEmbed.cmake).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/config.h"

namespace epsim {

// Stems of the data files in a folder under models/, in the build's order: "architectures" -> "deepseek-r1", ...
std::vector<std::string> data_file_stems(const std::string& folder);

// Such a file, or std::nullopt. `path` is written from the repository root.
std::optional<Config> data_file(const std::string& path);

// models/FOLDER/NAME.yaml as a document whose errors carry that path; for a NAME that looks like a path, the user's
// file. Throws InputError, listing all names, when there is no such file; `kind` says in the message what was looked
// for.
Config data_document(const std::string& folder, const std::string& name, const std::string& kind);

// Whether a name is meant as a file: it has a folder in it, or ends in .yaml, .yml or .json.
bool looks_like_path(const std::string& name);

// Lower case, with blanks and underscores as hyphens: how catalogue names are compared.
std::string catalogue_key(const std::string& name);

}  // namespace epsim
