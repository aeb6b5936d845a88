// The seed corpora of quick readers (targets.h) through them: whole, cut off everywhere, and with every byte damaged. What libFuzzer does
// at length, in short and with any compiler.
#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <vector>

#include "sim/core/files.h"
#include "tests/fuzz/targets.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

struct CorpusFile {
  const fuzz::Target* target;
  std::string name, bytes;
};

std::vector<CorpusFile> seeds() {
  std::vector<CorpusFile> out;
  for (const fuzz::Target& target : fuzz::quick_targets()) {
    for (const auto& entry :
         std::filesystem::directory_iterator(test::source_dir() / "tests/fuzz/corpus" / target.name)) {
      out.push_back({&target, entry.path().string(), read_file(entry.path())});
    }
  }
  return out;
}

// Long archives are cut at fewer places; headers and the bytes beside block ends are all met.
std::size_t step_of(const CorpusFile& seed) { return seed.bytes.size() > 2000 ? 7 : 1; }

TEST_CASE("every reader has a corpus") {
  std::set<std::string> readers;
  for (const CorpusFile& seed : seeds()) {
    readers.insert(seed.target->name);
  }
  CHECK(readers.size() == fuzz::quick_targets().size());
}

TEST_CASE("corpus files, whole and cut off at every place") {
  for (const CorpusFile& seed : seeds()) {
    CAPTURE(seed.name);
    for (std::size_t size = 0; size <= seed.bytes.size(); size += step_of(seed)) {
      CHECK_NOTHROW(seed.target->run(seed.bytes.substr(0, size)));
    }
    CHECK_NOTHROW(seed.target->run(seed.bytes));
  }
}

TEST_CASE("corpus files with one byte replaced, at every place") {
  for (const CorpusFile& seed : seeds()) {
    CAPTURE(seed.name);
    std::string bytes = seed.bytes;
    for (std::size_t i = 0; i < bytes.size(); i += step_of(seed)) {
      for (const char c : {'\0', '9', '-', '"', '\n', '\xff'}) {
        bytes[i] = c;
        CHECK_NOTHROW(seed.target->run(bytes));
      }
      bytes[i] = seed.bytes[i];
    }
  }
}

}  // namespace
}  // namespace epsim
