// Refusing what is wrong in the user's input, in one line.
#pragma once

#include <string>

#include "sim/core/error.h"

namespace epsim {

// Throws InputError where something is wrong at a place, or in an option or key ("" = no one of them).
inline void refuse_if(bool wrong, const InputPlace& place, const std::string& problem) {
  if (wrong) {
    throw InputError(place, problem);
  }
}
inline void refuse_if(bool wrong, const std::string& key, const std::string& problem) {
  refuse_if(wrong, InputPlace{"", 0, key}, problem);
}

}  // namespace epsim
