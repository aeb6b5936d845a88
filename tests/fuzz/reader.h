// Which reader a program of several runs: the last folder on its command line is tests/fuzz/corpus/NAME.
#pragma once

#include <filesystem>
#include <string>

namespace epsim::fuzz {

inline std::string& reader() {
  static std::string name;
  return name;
}

// Before the first input: of libFuzzer by LLVMFuzzerInitialize.
inline int set_reader(int argc, char** argv) {
  const std::filesystem::path folder(argv[argc - 1]);
  reader() = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  return 0;
}

}  // namespace epsim::fuzz
