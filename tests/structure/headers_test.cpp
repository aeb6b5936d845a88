// Every header can be included first, and twice: it says `#pragma once` and includes what declares the names that it
// uses. Read as text, as compiling 350 headers one by one takes minutes; -DEPSIM_HEADER_CHECKS=ON compiles them.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace epsim::test {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

// Names of the standard library, and the header that declares each.
const std::map<std::string, std::string> kStandardHeaders = {{"array", "array"},
                                                             {"vector", "vector"},
                                                             {"string", "string"},
                                                             {"string_view", "string_view"},
                                                             {"map", "map"},
                                                             {"set", "set"},
                                                             {"span", "span"},
                                                             {"optional", "optional"},
                                                             {"function", "functional"},
                                                             {"unique_ptr", "memory"},
                                                             {"shared_ptr", "memory"},
                                                             {"variant", "variant"},
                                                             {"atomic", "atomic"},
                                                             {"mutex", "mutex"},
                                                             {"thread", "thread"},
                                                             {"deque", "deque"},
                                                             {"unordered_map", "unordered_map"},
                                                             {"chrono", "chrono"},
                                                             {"filesystem", "filesystem"},
                                                             {"ostringstream", "sstream"},
                                                             {"numeric_limits", "limits"},
                                                             {"runtime_error", "stdexcept"},
                                                             {"sort", "algorithm"},
                                                             {"find_if", "algorithm"},
                                                             {"any_of", "algorithm"},
                                                             {"accumulate", "numeric"},
                                                             {"sqrt", "cmath"},
                                                             {"int64_t", "cstdint"},
                                                             {"int32_t", "cstdint"},
                                                             {"uint64_t", "cstdint"},
                                                             {"uint8_t", "cstdint"}};

// What the text of a header declares and uses, and includes.
struct HeaderText {
  bool once = false;
  Names declared, standard_used, used, includes;
};

std::string without_comments(const std::string& text) {
  static const std::regex noise(R"re(//[^\n]*|/\*[^]*?\*/|"(?:\\.|[^"\\\n])*")re");
  std::string out;
  auto from = text.begin();
  for (std::sregex_iterator at(text.begin(), text.end(), noise), end; at != end; ++at) {
    const auto start = text.begin() + at->position();
    out.append(from, start).append(" ");
    from = start + at->length();
  }
  return out.append(from, text.end());
}

Names all_matches(const std::string& text, const std::regex& pattern) {
  Names out;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) {
    out.insert((*at)[1].str());
  }
  return out;
}

HeaderText read_header(const std::string& text) {
  static const std::regex include(R"re(#include ["<]([^">]+)[">])re");
  static const std::regex declaration(R"re((?:struct|class|concept|using|typename)\s+([A-Z]\w*))re");
  static const std::regex enumerator(R"re(\n\s*([A-Z]\w*)\s*[,\n])re");
  static const std::regex standard(R"re(std::([a-z_0-9]+))re");
  static const std::regex type(R"re((?:^|[^\w.:])([A-Z]\w*[a-z]\w*))re");
  const std::string code = without_comments(text);
  HeaderText out{text.find("#pragma once") != std::string::npos, all_matches(code, declaration),
                 all_matches(code, standard), all_matches(code, type), all_matches(text, include)};
  out.declared.merge(all_matches(code, enumerator));
  return out;
}

using Headers = std::map<std::string, HeaderText>;

// The header and all that it includes, standard headers by their names.
void collect(const Headers& headers, const std::string& path, Names& seen) {
  if (const auto found = headers.find(path); seen.insert(path).second && found != headers.end()) {
    for (const std::string& other : found->second.includes) {
      collect(headers, other, seen);
    }
  }
}

// What keeps `path` from being included first; one message each.
std::vector<std::string> problems_of(const Headers& headers, const std::string& path) {
  const HeaderText& header = headers.at(path);
  std::vector<std::string> out;
  if (!header.once) {
    out.push_back(path + " lacks `#pragma once`");
  }
  Names reached, known;
  collect(headers, path, reached);
  for (const std::string& other : reached) {
    if (const auto found = headers.find(other); found != headers.end()) {
      known.insert(found->second.declared.begin(), found->second.declared.end());
    }
  }
  for (const std::string& name : header.standard_used) {
    if (const auto found = kStandardHeaders.find(name);
        found != kStandardHeaders.end() && !reached.contains(found->second)) {
      out.push_back(path + " uses std::" + name + " without <" + found->second + ">");
    }
  }
  Names elsewhere;
  for (const auto& [other, text] : headers) {
    elsewhere.insert(text.declared.begin(), text.declared.end());
  }
  for (const std::string& name : header.used) {
    if (elsewhere.contains(name) && !known.contains(name)) {
      out.push_back(path + " uses " + name + " without a header that declares it");
    }
  }
  return out;
}

Headers program_headers() {
  Headers out;
  for (const char* top : {"sim", "models", "policies", "traces", "calibration", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / top)) {
      const std::string path = fs::relative(entry.path(), source_dir()).generic_string();
      if (entry.path().extension() == ".h" && path != "policies/plugin/plugin.h") {  // that one is C
        std::stringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        out[path] = read_header(text.str());
      }
    }
  }
  return out;
}

TEST_CASE("every header includes what it uses") {
  const Headers headers = program_headers();
  REQUIRE(headers.size() > 100);  // the whole program was found
  for (const auto& [path, header] : headers) {
    for (const std::string& problem : problems_of(headers, path)) {
      FAIL_CHECK(problem);
    }
  }
}

TEST_CASE("what a header lacks is seen") {
  Headers headers;
  headers["a.h"] = read_header("#pragma once\n#include <vector>\nstruct Apple { std::vector<int> seeds; };\n");
  headers["b.h"] = read_header("#pragma once\n#include \"a.h\"\nstruct Tree { std::vector<Apple> apples; };\n");
  CHECK(problems_of(headers, "a.h").empty());
  CHECK(problems_of(headers, "b.h").empty());  // by way of a.h
  headers["c.h"] = read_header("// std::map<Tree>\nclass Apple;\nvoid eat(Apple& apple, const Tree&, std::string);\n");
  CHECK(problems_of(headers, "c.h") == std::vector<std::string>{"c.h lacks `#pragma once`",
                                                                "c.h uses std::string without <string>",
                                                                "c.h uses Tree without a header that declares it"});
}

}  // namespace
}  // namespace epsim::test
