// No two units, and no two folders, include each other in a circle. A unit is a path without its extension: a header and
// its .cpp are one.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/paths.h"

namespace epsim::test {
namespace {

namespace fs = std::filesystem;

using Units = std::set<std::string>;
using Graph = std::map<std::string, Units>;  // unit -> units that it includes

std::string unit_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

void add_includes(const std::string& unit, const std::string& text, Graph& graph) {
  Units& included = graph[unit];
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string start = "#include \"";
    if (line.starts_with(start)) {
      const std::string other = unit_of(line.substr(start.size(), line.find('"', start.size()) - start.size()));
      if (other != unit) {
        included.insert(other);
      }
    }
  }
}

Graph program_graph() {
  Graph out;
  for (const char* top : {"sim", "models", "policies", "traces", "calibration"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / top)) {
      const std::string kind = entry.path().extension().string();
      if (kind == ".h" || kind == ".cpp" || kind == ".cu" || kind == ".cuh") {
        std::stringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        add_includes(unit_of(fs::relative(entry.path(), source_dir()).generic_string()), text.str(), out);
      }
    }
  }
  return out;
}

// Tarjan's strongly connected components of more than one unit.
class CircleFinder {
 public:
  explicit CircleFinder(const Graph& graph) : graph_(graph) {
    for (const auto& [unit, included] : graph) {
      if (!number_.contains(unit)) {
        visit(unit);
      }
    }
  }
  std::set<Units> circles;

 private:
  void visit(const std::string& unit) {
    const int own = static_cast<int>(number_.size());
    number_[unit] = lowest_[unit] = own;
    path_.push_back(unit);
    if (const auto found = graph_.find(unit); found != graph_.end()) {
      for (const std::string& other : found->second) {
        if (!number_.contains(other)) {
          visit(other);
          lowest_[unit] = std::min(lowest_[unit], lowest_[other]);
        } else if (std::find(path_.begin(), path_.end(), other) != path_.end()) {
          lowest_[unit] = std::min(lowest_[unit], number_[other]);
        }
      }
    }
    if (lowest_[unit] == own) {
      const auto first = std::find(path_.begin(), path_.end(), unit);
      if (path_.end() - first > 1) {
        circles.insert(Units(first, path_.end()));
      }
      path_.erase(first, path_.end());
    }
  }

  const Graph& graph_;
  std::map<std::string, int> number_, lowest_;
  std::vector<std::string> path_;
};

std::string text_of(const Units& units) {
  std::string out;
  for (const std::string& unit : units) {
    out += (out.empty() ? "" : ", ") + unit;
  }
  return out;
}

// Which folder includes from which; a file of a folder's own is no include of another folder.
Graph folders_of(const Graph& units) {
  const auto folder = [](const std::string& unit) { return unit.substr(0, unit.rfind('/')); };
  Graph out;
  for (const auto& [unit, included] : units) {
    for (const std::string& other : included) {
      if (folder(other) != folder(unit)) {
        out[folder(unit)].insert(folder(other));
      }
    }
  }
  return out;
}

TEST_CASE("no two units include each other in a circle") {
  const Graph graph = program_graph();
  REQUIRE(graph.size() > 100);  // the whole program was found
  for (const Units& circle : CircleFinder(graph).circles) {
    FAIL_CHECK("these units include each other: ", text_of(circle));
  }
}

TEST_CASE("no two folders include each other in a circle") {
  for (const Units& circle : CircleFinder(folders_of(program_graph())).circles) {
    FAIL_CHECK("these folders include each other: ", text_of(circle));
  }
}

TEST_CASE("circles of folders are seen") {
  Graph graph;
  add_includes("a/x", "#include \"b/y.h\"\n", graph);
  add_includes("b/z", "#include \"a/w.h\"\n#include \"b/y.h\"\n", graph);
  CHECK(CircleFinder(graph).circles.empty());
  CHECK(CircleFinder(folders_of(graph)).circles == std::set<Units>{{"a", "b"}});
}

TEST_CASE("the finder sees circles, and only those") {
  Graph graph;
  add_includes("a", "#include \"b.h\"\n#include <vector>\n", graph);
  add_includes("b", "#include \"c.h\"\n// #include \"x.h\"\n", graph);
  add_includes("c", "#include \"d.h\"\n", graph);
  add_includes("d", "#include \"b.h\"\n#include \"d.h\"\n", graph);
  CHECK(CircleFinder(graph).circles == std::set<Units>{{"b", "c", "d"}});
  graph["d"].clear();
  CHECK(CircleFinder(graph).circles.empty());
}

}  // namespace
}  // namespace epsim::test
