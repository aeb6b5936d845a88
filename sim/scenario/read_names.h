// What readers of a scenario's sections share: names of the catalogue that may also be files.
#pragma once

#include <string>

#include "models/catalogue/data_files.h"
#include "sim/core/config.h"

namespace epsim {

// A name of the catalogue, or a file, taken from where the scenario stands.
inline std::string name_or_path(ConfigReader& in, const Key& key) {
  const std::string text = in.read<std::string>(key);
  return looks_like_path(text) ? in.path(key).string() : text;
}

// What `find` refuses without saying where is the fault of `key`.
template <class Find>
auto at_key(const ConfigReader& in, const std::string& key, Find find) {
  try {
    return find();
  } catch (const InputError& e) {
    if (e.place.file.empty() && e.place.key.empty()) {
      in.fail(key, e.problem);
    }
    throw;
  }
}

}  // namespace epsim
