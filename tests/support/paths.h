// Where tests find their files, and a folder of their own to write in.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "sim/core/files.h"

namespace epsim::test {

inline std::filesystem::path data_dir() { return EPSIM_TEST_DATA; }
inline std::filesystem::path source_dir() { return EPSIM_SOURCE_DIR; }

// The folder of shared data: $EPSIM_SHARED, or `shared` beside the checkout.
inline std::filesystem::path shared_dir() {
  const char* named = std::getenv("EPSIM_SHARED");
  return named != nullptr ? std::filesystem::path(named) : std::filesystem::path(EPSIM_SHARED_DEFAULT);
}
inline bool shared_available() { return std::filesystem::is_directory(shared_dir() / "data"); }

class TempDir : public TemporaryFolder {
 public:
  TempDir() : TemporaryFolder("epsim-test-") {}
};

}  // namespace epsim::test
