// Where tests find their files, and a folder of their own to write in.
#pragma once

#include <filesystem>

#include "sim/core/files.h"

namespace epsim::test {

// Defined in main.cpp, the one file that is compiled with the checkout's path: a compiler cache serves all others.
std::filesystem::path data_dir();
std::filesystem::path source_dir();
// The folder of shared data: $EPSIM_SHARED, or `shared` beside the checkout.
std::filesystem::path shared_dir();
inline bool shared_available() { return std::filesystem::is_directory(shared_dir() / "data"); }

class TempDir : public TemporaryFolder {
 public:
  TempDir() : TemporaryFolder("epsim-test-") {}
};

}  // namespace epsim::test
