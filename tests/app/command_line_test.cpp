// What every verb shares on the command line: help, where results go.
#include <doctest/doctest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("epsim help VERB is epsim VERB --help") {
  const TempDir dir;
  for (const std::string verb : {"run", "compare", "goodput", "sweep", "list", "plan"}) {
    CAPTURE(verb);
    const Outcome help = run_epsim(dir, "help " + verb), option = run_epsim(dir, verb + " --help");
    CHECK(help.exit_code == 0);
    CHECK(help.out == option.out);
    CHECK(help.out.find("epsim " + verb) == 0);
  }
  CHECK(run_epsim(dir, "help rnu").exit_code == 2);
}

TEST_CASE("--json prints the result alone on standard output") {
  const TempDir dir;
  struct Row {
    std::string arguments;
    const char* key;
  };
  for (const Row& row : {Row{"run " + small_scenario() + " -q", "/throughput"},
                         Row{"compare " + small_scenario() + " --policies base,eplb -q", "/runs/1"},
                         Row{"screen " + small_scenario() + " --policies base,eplb", "/policies/1/balancedness_mean"},
                         Row{"validate " + small_scenario() + " --policies base", "/policies/0/kv_pool_gib_per_gpu"}}) {
    CAPTURE(row.arguments);
    const Outcome done = run_epsim(dir, row.arguments + " --json");
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    const auto json = nlohmann::json::parse(done.out);
    CHECK_MESSAGE(json.contains(nlohmann::json::json_pointer(row.key)), done.out.substr(0, 600));
    CHECK(done.err.find("small") != std::string::npos);  // the text that people read
  }
}

TEST_CASE("-o - writes the one file of a verb to standard output") {
  const TempDir dir;
  const Outcome drawn = run_epsim(dir, "list --topology " + small_scenario() + " -o -");
  CHECK(drawn.out.find("graph") != std::string::npos);
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out").exit_code == 0);
  const Outcome report = run_epsim(dir, "report out -o -");
  REQUIRE_MESSAGE(report.exit_code == 0, report.err);
  CHECK(report.out.find("<!") == 0);
  CHECK(report.out.find("</html>") != std::string::npos);
}

TEST_CASE("list keys shows one section's keys, and says which exist") {
  const TempDir dir;
  const Outcome keys = run_epsim(dir, "list keys cluster.node");
  CHECK(keys.out.find("cluster.nodes\n    whole number, > 0; required\n    Number of nodes of one instance.\n") !=
        std::string::npos);
  CHECK(keys.out.find("model") == std::string::npos);
  CHECK(run_epsim(dir, "list keys plan_loads.kind").out.find("loads.kind\n") == 0);
  const Outcome unknown = run_epsim(dir, "list keys clutser");
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("cluster") != std::string::npos);
  CHECK(run_epsim(dir, "list models x").exit_code == 2);
}

TEST_CASE("the schema is one of draft 2020-12 that has every key, and its references lead somewhere") {
  const TempDir dir;
  const auto schema = nlohmann::json::parse(run_epsim(dir, "schema").out);
  CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  const std::function<void(const nlohmann::json&)> check = [&](const nlohmann::json& node) {
    if (node.is_object() && node.contains("$ref")) {
      const std::string target = node.at("$ref").get<std::string>().substr(1);
      CHECK_MESSAGE(schema.contains(nlohmann::json::json_pointer(target)), target);
    }
    for (const auto& below : node) {
      if (below.is_structured()) {
        check(below);
      }
    }
  };
  check(schema);
  const auto& cluster = schema.at("properties").at("cluster").at("properties");
  CHECK(cluster.at("nodes").at("exclusiveMinimum") == 0);
  CHECK(schema.at("properties").at("requests").at("properties").at("think_time").at("pattern").get<std::string>() ==
        "^[+-]?[0-9.]+([eE][+-]?[0-9]+)? *(s|ms|us|ns|min|h)$");
  const auto& policy = schema.at("properties").at("policies").at("additionalProperties").at("properties");
  CHECK(policy.at("rebalance").at("properties").contains("rule"));
}

TEST_CASE("without -o no run takes another's folder, and out/last is the newest") {
  const TempDir dir;
  for (const char* folder : {"out/small", "out/small-2", "out/small-3"}) {
    const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q");
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    CHECK(done.out.find(std::string("results: ") + folder + "\n") != std::string::npos);
    CHECK(std::filesystem::exists(dir / folder / "resolved.yaml"));
    CHECK(std::filesystem::read_symlink(dir / "out/last") == std::filesystem::path(folder).filename());
  }
  // A named folder is not taken twice, and does not become `last`.
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out/mine").exit_code == 0);
  const Outcome again = run_epsim(dir, "run " + small_scenario() + " -q -o out/mine");
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("--overwrite") != std::string::npos);
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small-3");
  // With --overwrite the plain name is replaced.
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q --overwrite").exit_code == 0);
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small");
}

TEST_CASE("a run that is refused leaves no folder behind") {
  const TempDir dir;
  CHECK(run_epsim(dir, "run " + small_scenario() + " -q --timeline 3:x").exit_code == 2);
  CHECK(run_epsim(dir, "run " + small_scenario() + " -q --set memory.static_fraction=0.01").exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(dir / "out/small"));
  // A user's own folder `last` stays as it is.
  std::filesystem::create_directories(dir / "out/last");
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q").exit_code == 0);
  CHECK_FALSE(std::filesystem::is_symlink(dir / "out/last"));
}
