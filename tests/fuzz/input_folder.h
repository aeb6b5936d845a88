// A folder of the process's own in which fuzz targets write the input under the name that the reader expects.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "sim/core/files.h"

namespace epsim::fuzz {

class InputFolder {
 public:
  std::filesystem::path write(const std::string& name, const std::uint8_t* data, std::size_t size) const {
    std::ofstream out(folder_ / name, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    return folder_ / name;
  }

 private:
  TemporaryFolder folder_{"epsim-fuzz-"};
};

}  // namespace epsim::fuzz
