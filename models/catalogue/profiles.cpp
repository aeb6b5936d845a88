#include "models/catalogue/profiles.h"

#include <span>
#include <utility>

#include "models/catalogue/data_files.h"
#include "sim/core/last_made.h"

namespace epsim::embedded {
// Defined by the source that EpsimEmbed.cmake generates.
std::span<const std::pair<std::string_view, std::string_view>> fitted_profiles();
}  // namespace epsim::embedded

namespace epsim {

std::vector<std::string> fitted_profile_names() {
  std::vector<std::string> names;
  for (const auto& [path, text] : embedded::fitted_profiles()) {
    names.push_back(std::filesystem::path(path).parent_path().filename().string());
  }
  return names;
}

FittedProfile fitted_profile(const std::string& name_or_path) {
  if (looks_like_path(name_or_path)) {
    return read_fitted_profile(Config::from_file(name_or_path));
  }
  const std::string wanted = "calibration/profiles/" + catalogue_key(name_or_path) + "/fit.yaml";
  for (const auto& [path, text] : embedded::fitted_profiles()) {
    if (path == wanted) {
      static LastMade<std::string, FittedProfile> profiles(64);  // a study reads as many scenarios as it has points
      return *profiles.get(wanted, [text = text](const std::string& file) {
        return read_fitted_profile(Config::from_own_text(text, file));
      });
    }
  }
  throw InputError({}, unknown_name("fitted profile", name_or_path, fitted_profile_names()));
}

}  // namespace epsim
