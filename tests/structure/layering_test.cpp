// Every source file of the program keeps to its layer, and the checker that says so sees what it should.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/structure/include_rules.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTopFolders[] = {"sim", "models", "policies", "traces", "calibration", "experiments", "tests"};

bool is_source(const fs::path& file) {
  const std::string kind = file.extension().string();
  return kind == ".h" || kind == ".cpp" || kind == ".cu" || kind == ".cuh";
}

// Paths from the root of the repository.
std::vector<std::string> source_files() {
  std::vector<std::string> out;
  for (const char* top : kTopFolders) {
    if (fs::is_directory(source_dir() / top)) {
      for (const auto& entry : fs::recursive_directory_iterator(source_dir() / top)) {
        if (entry.is_regular_file() && is_source(entry.path())) {
          out.push_back(fs::relative(entry.path(), source_dir()).generic_string());
        }
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_CASE("every file includes only what stands below its layer, by its path from the root") {
  const std::vector<std::string> files = source_files();
  REQUIRE(files.size() > 100);  // the whole program was found
  const auto exists = [](const std::string& path) { return fs::is_regular_file(source_dir() / path); };
  for (const std::string& file : files) {
    for (const std::string& violation : include_violations(file, text_of(source_dir() / file), exists)) {
      FAIL_CHECK(violation);
    }
  }
}

TEST_CASE("every folder with sources has a place in the layers") {
  for (const std::string& file : source_files()) {
    const auto holds = [&](std::string_view folder) { return file.starts_with(std::string(folder) + "/"); };
    const bool layered = std::any_of(include_rules().begin(), include_rules().end(),
                                     [&](const IncludeRule& rule) { return holds(rule.folder); });
    const bool free = std::any_of(unlayered_folders().begin(), unlayered_folders().end(), holds);
    CHECK_MESSAGE(layered != free, file, " is in no layer, or in two");
  }
}

// The only violation in made-up text, whose includes all name files; empty when there is none.
std::string violation_in(const std::string& path, const std::string& text) {
  const std::vector<std::string> found = include_violations(path, text, [](const std::string&) { return true; });
  REQUIRE(found.size() <= 1);
  return found.empty() ? "" : found.front();
}

TEST_CASE("the checker takes what the layers allow") {
  CHECK(violation_in("sim/core/a.h", "#include <vector>\n#include \"sim/core/b.h\"\n") == "");
  CHECK(violation_in("sim/domain/a.cpp", "#include \"sim/core/b.h\"\n") == "");
  CHECK(violation_in("models/step/a.h", "#include \"models/compute/b.h\"\n#include \"sim/domain/c.h\"\n") == "");
  CHECK(violation_in("sim/cluster/a.h", "#include \"policies/b.h\"\n#include \"sim/scenario/c.h\"\n") == "");
  CHECK(violation_in("sim/report/a.h", "#include \"sim/cluster/run_result.h\"\n") == "");
  CHECK(violation_in("calibration/cuda/a.cu", "#include \"models/profile/b.h\"\n") == "");
  CHECK(violation_in("sim/app/a.cpp", "#include \"sim/report/b.h\"\n") == "");
  CHECK(violation_in("tests/models/a.cpp", "#include \"sim/app/b.h\"\n#include <yaml-cpp/yaml.h>\n") == "");
  CHECK(violation_in("sim/core/config.cpp", "#include <yaml-cpp/yaml.h>\n") == "");
  CHECK(violation_in("sim/core/a.h", "// #include \"sim/domain/b.h\"\nconst char* s = \"#include <sim/x.h>\";\n") ==
        "");
}

TEST_CASE("the checker names file, line and what is allowed") {
  CHECK(violation_in("sim/engine/a.h", "\n\n#include \"policies/b.h\"\n") ==
        "sim/engine/a.h:3: \"policies/b.h\" is not below this layer; files here may include sim/engine, sim/core, "
        "sim/domain.");
}

TEST_CASE("the checker refuses what goes up, aside or around") {
  struct Row {
    const char* path;
    const char* line;
    const char* says;
  };
  const Row rows[] = {
      {"sim/core/a.h", "#include \"sim/domain/b.h\"", "not below"},
      {"sim/domain/a.h", "#include \"sim/engine/b.h\"", "not below"},
      {"sim/engine/a.h", "#include \"traces/b.h\"", "not below"},
      {"traces/format/a.h", "#include \"models/b.h\"", "not below"},
      {"traces/format/a.h", "#include \"traces/import/b.h\"", "not below"},
      {"traces/requests/a.h", "#include \"traces/expert_loads/b.h\"", "not below"},
      {"models/network/a.h", "#include \"models/compute/b.h\"", "not below"},
      {"models/step/a.h", "#include \"policies/b.h\"", "not below"},
      {"policies/a.h", "#include \"sim/engine/b.h\"", "not below"},
      {"policies/a.h", "#include \"sim/cluster/b.h\"", "not below"},
      {"sim/cluster/a.h", "#include \"sim/report/b.h\"", "not below"},
      {"sim/report/a.h", "#include \"sim/cluster/simulate.h\"", "not below"},
      {"sim/report/a.h", "#include \"models/b.h\"", "not below"},
      {"models/step/a.h", "#include \"calibration/b.h\"", "not below"},
      {"calibration/a.h", "#include \"models/step/step_model.h\"", "not below"},
      {"sim/core/a.h", "#include \"tests/support/b.h\"", "not below"},
      {"sim/corex/a.h", "#include \"sim/core/b.h\"", "has no layer"},
      {"sim/core/a.h", "  #  include\t\"sim/app/b.h\"  // why not", "not below"},
      {"sim/core/a.h", "#include <sim/core/b.h>", "in quotes"},
      {"sim/core/a.h", "#include \"b.h\"", "from the repository's root"},
      {"sim/core/a.h", "#include \"../core/b.h\"", "from the repository's root"},
      {"sim/core/a.h", "#include \"sim/core/../domain/b.h\"", "from the repository's root"},
      {"sim/core/a.h", "#include \"fmt/format.h\"", "from the repository's root"},
      {"models/step/a.cpp", "#include <yaml-cpp/yaml.h>", "ConfigReader"},
  };
  for (const Row& row : rows) {
    check_contains(violation_in(row.path, std::string(row.line) + "\n"), {row.path, ":1: ", row.says});
  }
}

TEST_CASE("a header that is not there is refused, even where anything may be included") {
  const auto nothing = [](const std::string&) { return false; };
  CHECK(include_violations("tests/core/a.cpp", "#include \"sim/core/gone.h\"\n", nothing).size() == 1);
}

}  // namespace
}  // namespace epsim::test
