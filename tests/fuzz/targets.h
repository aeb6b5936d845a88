// Readers as functions of bytes, for libFuzzer and for tests. A program has one list of them: traces_list.cpp, what is
// measured and recorded; documents_list.cpp, what people write and what earlier runs and other processes leave.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace epsim::fuzz {

struct Target {
  const char* name;  // also of its corpus, tests/fuzz/corpus/NAME
  // Reads `bytes`. InputError is a fine answer; any other exception escapes. What is read is checked.
  void (*run)(const std::string& bytes);
};

// Of the program's list: all, and those whose corpora are quick to read at every length (corpus_test.cpp).
std::span<const Target> targets();
std::span<const Target> quick_targets();

// A source file each.
std::span<const Target> import_targets();    // routing traces of others
std::span<const Target> trace_targets();     // the project's own format
std::span<const Target> request_targets();   // request traces
std::span<const Target> document_targets();  // other documents
std::span<const Target> scenario_targets();

inline std::vector<Target> joined(std::initializer_list<std::span<const Target>> lists) {
  std::vector<Target> out;
  for (const std::span<const Target> list : lists) {
    out.insert(out.end(), list.begin(), list.end());
  }
  return out;
}

}  // namespace epsim::fuzz
