// Readers as functions of bytes, for libFuzzer and for the test that feeds them their corpora. A program links one list:
// requests_targets.cpp, the readers of request traces; documents_targets.cpp, those of what people write and of what
// earlier runs and other processes leave.
#pragma once

#include <span>
#include <string>

namespace epsim::fuzz {

struct Target {
  const char* name;  // also of its corpus, tests/fuzz/corpus/NAME
  // Reads `bytes`. InputError is a fine answer; any other exception escapes. What is read is checked.
  void (*run)(const std::string& bytes);
};

std::span<const Target> targets();

}  // namespace epsim::fuzz
