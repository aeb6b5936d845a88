// Every reader of request traces as a function of bytes, for libFuzzer and for the test that feeds it the corpora.
#pragma once

#include <span>
#include <string>

namespace epsim::fuzz {

struct Target {
  const char* name;  // also of its corpus, tests/fuzz/corpus/NAME
  // Reads `bytes`. InputError is a fine answer; any other exception escapes. A trace that is read is checked.
  void (*run)(const std::string& bytes);
};

std::span<const Target> request_targets();

}  // namespace epsim::fuzz
