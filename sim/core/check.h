// EPSIM_CHECK(condition, message): a broken invariant of the program itself. On in every build.
#pragma once

#include <stdexcept>
#include <string>

namespace epsim {

// Thrown when the program's own rules are broken; never the user's fault.
struct InvariantBroken : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] inline void invariant_broken(const char* condition, const char* file, int line, const std::string& what) {
  throw InvariantBroken(std::string(file) + ":" + std::to_string(line) + ": " + condition + " does not hold: " + what);
}

}  // namespace epsim

#define EPSIM_CHECK(condition, message)                                   \
  do {                                                                    \
    if (!(condition)) {                                                   \
      ::epsim::invariant_broken(#condition, __FILE__, __LINE__, message); \
    }                                                                     \
  } while (false)
