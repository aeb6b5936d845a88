// A folder of the process's own in which fuzz targets write the input under the name that the reader expects.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/core/files.h"

namespace epsim::fuzz {

class InputFolder {
 public:
  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc) << bytes;
    return folder_ / name;
  }

 private:
  TemporaryFolder folder_{"epsim-fuzz-"};
};

}  // namespace epsim::fuzz
