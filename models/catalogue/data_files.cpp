#include "models/catalogue/data_files.h"

#include <cctype>
#include <span>
#include <string_view>
#include <utility>

namespace epsim::embedded {
// Defined by the source that EpsimEmbed.cmake generates.
std::span<const std::pair<std::string_view, std::string_view>> models_data();
}  // namespace epsim::embedded

namespace epsim {

std::vector<std::string> data_file_stems(const std::string& folder) {
  const std::filesystem::path wanted = std::filesystem::path("models") / folder;
  std::vector<std::string> stems;
  for (const auto& [path, text] : embedded::models_data()) {
    const std::filesystem::path file(path);
    if (file.parent_path() == wanted) {
      stems.push_back(file.stem().string());
    }
  }
  return stems;
}

std::optional<Config> data_file(const std::string& path) {
  for (const auto& [name, text] : embedded::models_data()) {
    if (name == path) {
      return Config::from_own_text(text, path);
    }
  }
  return std::nullopt;
}

Config data_document(const std::string& folder, const std::string& name, const std::string& kind) {
  if (looks_like_path(name)) {
    return Config::from_file(name);
  }
  const std::string path = "models/" + folder + "/" + catalogue_key(name) + ".yaml";
  const std::optional<Config> document = data_file(path);
  if (!document) {
    throw InputError({}, unknown_name(kind, name, data_file_stems(folder)));
  }
  return *document;
}

bool looks_like_path(const std::string& name) {
  const std::string extension = std::filesystem::path(name).extension().string();
  return name.find('/') != std::string::npos || extension == ".yaml" || extension == ".yml" || extension == ".json";
}

std::string catalogue_key(const std::string& name) {
  std::string key = name;
  for (char& c : key) {
    c = c == ' ' || c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return key;
}

}  // namespace epsim
