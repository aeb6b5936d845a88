// Policies from shared objects: what works, and that every way to be wrong ends with a clear error.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;
using nlohmann::json;

namespace {

std::string plugin(const std::string& kind) { return std::string(EPSIM_PLUGINS) + "/" + kind + ".so"; }

Outcome plan_with(const TempDir& dir, json options) {
  const json request = {
      {"policy", "plugin"}, {"options", std::move(options)}, {"weights", {{4, 3, 2, 1}}}, {"num_gpus", 2}};
  std::ofstream(dir / "request.json") << request.dump();
  return run_epsim(dir, "plan request.json -o -");
}

struct WrongPlugin {
  const char* name;
  json options;
  std::vector<std::string> mentions;
};

}  // namespace

TEST_CASE("plugin: its plan is the program's plan, and its options reach it") {
  const TempDir dir;
  const Outcome plain = plan_with(dir, {{"path", plugin("good")}});
  CAPTURE(plain.err);
  REQUIRE(plain.exit_code == 0);
  CHECK(json::parse(plain.out)["phy2log"] == json({{0, 2, 1, 3}}));
  CHECK(json::parse(plain.out)["policy"] == "cards");
  const Outcome turned = plan_with(dir, {{"path", plugin("good")}, {"first", 1}, {"reverse", true}});
  CHECK(json::parse(turned.out)["phy2log"] == json({{2, 0, 3, 1}}));
}

TEST_CASE("plugin: in a scenario, relative to it, under a label or in place of the policy's name") {
  const TempDir dir;
  std::filesystem::copy_file(plugin("good"), dir / "mine.so");
  std::string scenario = slurp(epsim::test::data_dir() / "small.yaml");
  std::ofstream(dir / "labelled.yaml") << scenario << "policies: {dealt: {plugin: ./mine.so, first: 3}}\n";
  const Outcome labelled = run_epsim(dir, "compare labelled.yaml --policies base,dealt -q -o out");
  CAPTURE(labelled.err);
  CHECK(labelled.exit_code == 0);
  CHECK(labelled.out.find("dealt") != std::string::npos);
  CHECK(std::filesystem::exists(dir / "out/dealt/summary.json"));
  // The file is an input of the run like any other.
  CHECK(slurp(dir / "out/comparison.json").find("mine.so") != std::string::npos);

  std::ofstream(dir / "in_place.yaml") << scenario << "policy: {plugin: ./mine.so, first: 3}\n";
  const Outcome in_place = run_epsim(dir, "run in_place.yaml -q -o alone");
  CAPTURE(in_place.err);
  CHECK(in_place.exit_code == 0);
  CHECK(in_place.out.find("mine") != std::string::npos);
  CHECK(slurp(dir / "alone/requests.csv") == slurp(dir / "out/dealt/requests.csv"));
  // What was resolved runs again, from another folder, and gives the same figures.
  const Outcome again = run_epsim(dir, "run alone/resolved.yaml -q -o again");
  CAPTURE(again.err);
  CHECK(again.exit_code == 0);
  CHECK(slurp(dir / "again/layers.csv") == slurp(dir / "alone/layers.csv"));
}

TEST_CASE("plugin: what is wrong with it is said") {
  const TempDir dir;
  std::ofstream(dir / "text.so") << "this is no shared object\n";
  const std::vector<WrongPlugin> rows = {
      {"no path", json::object(), {"options.path", "required"}},
      {"no such file", {{"path", "nowhere.so"}}, {"nowhere.so", "no such file"}},
      {"a folder", {{"path", "."}}, {"no such file"}},
      {"not a shared object", {{"path", "text.so"}}, {"text.so", "cannot be loaded"}},
      {"another interface version", {{"path", plugin("wrong_abi")}}, {"wrong_abi.so", "version 42", "version 1"}},
      {"no entry", {{"path", plugin("no_entry")}}, {"no_entry.so", "epsim_plugin_entry"}},
      {"empty entry", {{"path", plugin("null_entry")}}, {"null_entry.so", "returned nothing"}},
      {"a function left out", {{"path", plugin("missing_function")}}, {"missing_function.so", "leaves out"}},
      {"an undefined symbol", {{"path", plugin("undefined_symbol")}}, {"a_function_that_nobody_defines"}},
      {"no policy", {{"path", plugin("no_reason")}}, {"plug-in 'broken'", "no reason"}},
      {"no such expert", {{"path", plugin("bad_expert")}}, {"plug-in 'broken'", "expert 4", "0..3"}},
      {"no such layer", {{"path", plugin("bad_layer")}}, {"plug-in 'broken'", "layer 1"}},
      {"a GPU twice", {{"path", plugin("twice")}}, {"plug-in 'broken'", "GPU 1 in layer 0 twice"}},
      {"an expert left out", {{"path", plugin("incomplete")}}, {"plug-in 'broken'", "expert 3 on no GPU in layer 0"}},
      {"an exception", {{"path", plugin("throws")}}, {"plug-in 'throws'", "on purpose"}},
      {"an unknown option", {{"path", plugin("good")}, {"frist", 1}}, {"options.frist", "first"}},
      {"not a whole number", {{"path", plugin("good")}, {"first", 1.5}}, {"options.first", "1.5", "whole number"}},
      {"not a number", {{"path", plugin("good")}, {"share", "much"}}, {"options.share", "much"}},
      {"not a flag", {{"path", plugin("good")}, {"reverse", 2}}, {"options.reverse", "true nor false"}},
  };
  for (const WrongPlugin& row : rows) {
    CAPTURE(row.name);
    const Outcome outcome = plan_with(dir, row.options);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    for (const std::string& word : row.mentions) {
      CHECK_MESSAGE(outcome.err.find(word) != std::string::npos, "the message should mention " << word);
    }
  }
}

TEST_CASE("plugin: it is listed, and an unknown policy's message names it") {
  const TempDir dir;
  CHECK(run_epsim(dir, "list policies").out.find("plugin") != std::string::npos);
  CHECK(run_epsim(dir, "validate " + small_scenario() + " --policies plugn").err.find("plugin") != std::string::npos);
}
