// What a fuzz program reads: compiled in for libFuzzer, whose programs read one format each, else by the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace epsim::fuzz {

#ifdef EPSIM_FUZZ_FORMAT
inline std::string format() { return EPSIM_FUZZ_FORMAT; }
inline std::string file_name() { return EPSIM_FUZZ_FILE; }
#else
inline std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
inline std::string format() { return setting("EPSIM_FUZZ_FORMAT"); }
inline std::string file_name() { return setting("EPSIM_FUZZ_FILE"); }
#endif

}  // namespace epsim::fuzz
