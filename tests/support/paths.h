// Where tests find their files, and a folder of their own to write in.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace epsim::test {

inline std::filesystem::path data_dir() { return EPSIM_TEST_DATA; }
inline std::filesystem::path source_dir() { return EPSIM_SOURCE_DIR; }

// The folder of shared data: $EPSIM_SHARED, or `shared` beside the checkout.
inline std::filesystem::path shared_dir() {
  const char* named = std::getenv("EPSIM_SHARED");
  return named != nullptr ? std::filesystem::path(named) : std::filesystem::path(EPSIM_SHARED_DEFAULT);
}
inline bool shared_available() { return std::filesystem::is_directory(shared_dir() / "data"); }

// A fresh folder that goes away with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "epsim-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("cannot make a temporary folder");
    }
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace epsim::test
