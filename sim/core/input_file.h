// The one place that opens files of the user's: regular files only, and none larger than the reader says.
#pragma once

#include <cstdint>
#include <filesystem>

#include "sim/core/limits.h"

namespace epsim {

// An open file. A pipe would hold the program up and a device has no end, so both are refused, as are folders; opening
// never waits. Throws InputError, naming the file.
class InputFileHandle {
 public:
  explicit InputFileHandle(const std::filesystem::path& file);
  ~InputFileHandle();
  InputFileHandle(const InputFileHandle&) = delete;
  InputFileHandle& operator=(const InputFileHandle&) = delete;
  int descriptor() const { return descriptor_; }
  int release();  // the caller closes it
  std::int64_t bytes() const { return bytes_; }

 private:
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

// For files that a library opens by name. Returns the size.
std::int64_t check_input_file(const std::filesystem::path& file);

}  // namespace epsim
