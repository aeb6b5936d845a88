// Fuzz target of one reader of a list (targets.h): the last folder on the command line is its corpus, tests/fuzz/corpus/NAME.
// An exception that escapes is a finding.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "tests/fuzz/targets.h"

namespace {

const epsim::fuzz::Target* wanted = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path folder((*argv)[*argc - 1]);
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  for (const epsim::fuzz::Target& target : epsim::fuzz::targets()) {
    wanted = target.name == name ? &target : wanted;
  }
  if (wanted == nullptr) {
    std::cerr << "no reader '" << name << "' in this program\n";
    std::abort();
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  wanted->run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
