// What a policy is like stands in its entry (policies/registry.h): no other code knows policies by name.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace epsim::test {
namespace {

namespace fs = std::filesystem;

std::string source_text(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<fs::path> sources(const char* folder) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
    if (entry.path().extension() == ".h" || entry.path().extension() == ".cpp") {
      out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::set<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::set<std::string> out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    out.insert((*at)[1]);
  }
  return out;
}

// As their entries spell them. Names that are everyday words mean other things elsewhere.
std::set<std::string> policy_names() {
  static const std::regex entry(R"(extern const \w+Entry k\w+[\s{]+"(\w+)\")");
  std::set<std::string> out;
  for (const fs::path& file : sources("policies")) {
    out.merge(matches(source_text(file), entry));
  }
  for (const char* word : {"base", "even", "plugin", "random"}) {
    REQUIRE(out.erase(word) == 1);
  }
  return out;
}

// Files that may know some. The list only shrinks: a file that knows none any more has to leave it.
const std::set<std::string>& known_exceptions() {
  static const std::set<std::string> known = {
      "sim/report/rate_verdict.cpp",  // has words of its own for two labels
  };
  return known;
}

TEST_CASE("no policy's name stands outside policies/") {
  static const std::regex literal(R"REGEX("(\w+)")REGEX");
  const std::set<std::string> names = policy_names();
  REQUIRE(names.size() > 20);
  std::set<std::string> excepted;
  for (const char* folder : {"sim", "models", "traces", "calibration"}) {
    for (const fs::path& file : sources(folder)) {
      const std::string path = fs::relative(file, source_dir()).generic_string();
      for (const std::string& word : matches(source_text(file), literal)) {
        if (!names.contains(word)) {
          continue;
        }
        excepted.insert(path);
        CHECK_MESSAGE(known_exceptions().contains(path), path, " knows the policy '", word,
                      "' by name; say in the policy's entry what is to be known");
      }
    }
  }
  CHECK(excepted == known_exceptions());
}

}  // namespace
}  // namespace epsim::test
