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

void check_refused(const TempDir& dir, const WrongPlugin& row) {
  CAPTURE(row.name);
  CAPTURE(row.options.dump());
  const Outcome outcome = plan_with(dir, row.options);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("epsim: request.json") != std::string::npos);
  for (const std::string& word : row.mentions) {
    CHECK_MESSAGE(outcome.err.find(word) != std::string::npos, "the message should mention " << word);
  }
  const std::size_t file = outcome.err.find(".so");
  CHECK_MESSAGE((file == std::string::npos || outcome.err.find(".so", file + 1) == std::string::npos), "named twice");
}

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

TEST_CASE("plugin: errors of its file and its options") {
  const TempDir dir;
  std::ofstream(dir / "text.so") << "this is not a shared object\n";
  std::ofstream(dir / "empty.so");
  // Cut in the middle: a map of it would end in SIGBUS. Cut in its last segment's tables: its headers are whole.
  const std::string whole = slurp(plugin("good"));
  std::ofstream(dir / "half.so", std::ios::binary) << whole.substr(0, whole.size() / 2);
  std::ofstream(dir / "header.so", std::ios::binary) << whole.substr(0, 64);
  const std::vector<WrongPlugin> rows = {
      {"no path", json::object(), {"options.path", "required"}},
      {"no such file", {{"path", "nowhere.so"}}, {"nowhere.so", "no such file"}},
      {"a folder", {{"path", "."}}, {"folder"}},
      {"a device", {{"path", "/dev/zero"}}, {"/dev/zero", "device"}},
      {"not a shared object", {{"path", "text.so"}}, {"text.so", "not a 64-bit ELF"}},
      {"an empty file", {{"path", "empty.so"}}, {"empty.so", "not a 64-bit ELF"}},
      {"half a shared object", {{"path", "half.so"}}, {"half.so", "cut off"}},
      {"a header alone", {{"path", "header.so"}}, {"header.so", "cut off"}},
      {"another interface version", {{"path", plugin("wrong_abi")}}, {"wrong_abi.so", "version 42", "version 2"}},
      {"the first interface", {{"path", plugin("version_1")}}, {"version_1.so", "version 1 ", "version 2"}},
      {"a struct of another size", {{"path", plugin("wrong_size")}}, {"epsim_loads of 32 bytes", "has 40"}},
      {"no entry", {{"path", plugin("no_entry")}}, {"no_entry.so", "epsim_plugin_entry"}},
      {"a function left out", {{"path", plugin("missing_function")}}, {"missing_function.so", "leaves out"}},
      {"no name", {{"path", plugin("null_name")}}, {"null_name.so", "leaves out"}},
      {"a name of two lines", {{"path", plugin("bad_name")}}, {"bad_name.so", "printable"}},
      {"an undefined symbol", {{"path", plugin("undefined_symbol")}}, {"a_function_that_nobody_defines"}},
      {"an exception", {{"path", plugin("throws")}}, {"plug-in 'throws'", "on purpose"}},
      {"an unknown option", {{"path", plugin("good")}, {"frist", 1}}, {"options.frist", "first"}},
      {"not a whole number", {{"path", plugin("good")}, {"first", 1.5}}, {"options.first", "1.5", "whole number"}},
      {"not a number", {{"path", plugin("good")}, {"share", "much"}}, {"options.share", "much"}},
      {"not a flag", {{"path", plugin("good")}, {"reverse", 2}}, {"options.reverse", "true nor false"}},
  };
  for (WrongPlugin row : rows) {
    check_refused(dir, row);
    row.options["isolate"] = true;
    check_refused(dir, row);
  }
  json timed = {{"path", plugin("good")}, {"timeout", "10s"}};
  check_refused(dir, {"a timeout that nothing keeps", timed, {"options.timeout", "isolate: true"}});
  timed["isolate"] = true;
  timed["timeout"] = "0s";
  check_refused(dir, {"no time at all", timed, {"options.timeout", "positive"}});
}

TEST_CASE("plugin: calls that break the contract") {
  const TempDir dir;
  const auto broken = [](const char* how, const char* when = "plan") {
    return json{{"path", plugin("broken")}, {"how", how}, {"when", when}};
  };
  const std::vector<WrongPlugin> rows = {
      {"no policy", broken("null", "create"), {"plug-in '", "no reason"}},
      {"no policy by a failure without words", broken("no_reason", "create"), {"plug-in '", "no reason"}},
      {"no plan by a failure without words", broken("no_reason"), {"plug-in 'broken'", "no reason"}},
      {"a plan before it is asked", broken("put", "create"), {"before it was asked"}},
      {"an exception in create()", broken("throw", "create"), {"out of create()", "on purpose"}},
      {"a number thrown in create()", broken("throw_int", "create"), {"out of create()", "std::exception"}},
      {"an exception in plan()", broken("throw"), {"out of plan()", "on purpose"}},
      {"a number thrown in plan()", broken("throw_int"), {"out of plan()", "std::exception"}},
      {"no such expert", broken("bad_expert"), {"plug-in 'broken'", "expert 4", "0..3"}},
      {"a negative expert", broken("negative_expert"), {"plug-in 'broken'", "expert -1", "0..3"}},
      {"no such layer", broken("bad_layer"), {"plug-in 'broken'", "layer 1"}},
      {"no such GPU", broken("bad_gpu"), {"plug-in 'broken'", "GPU 2"}},
      {"a negative count", broken("negative_count"), {"plug-in 'broken'", "put -1 experts"}},
      {"a count without end", broken("huge_count"), {"2147483647 experts", "16777216"}},
      {"experts from nowhere", broken("null_experts"), {"null pointer"}},
      {"a GPU twice", broken("twice"), {"plug-in 'broken'", "GPU 1 in layer 0 twice"}},
      {"an expert left out", broken("incomplete"), {"plug-in 'broken'", "expert 3 on no GPU in layer 0"}},
      {"nothing at all", broken("nothing"), {"plug-in 'broken'", "expert 0 on no GPU in layer 0"}},
      {"a message in colour", broken("control"), {"a line [31m of colour"}},
  };
  for (WrongPlugin row : rows) {
    check_refused(dir, row);
    row.options["isolate"] = true;
    check_refused(dir, row);
  }
  check_refused(dir, {"another plan each time", broken("moods"), {"two different plans"}});
  // A plan from another thread of the plug-in's is a plan.
  CHECK(plan_with(dir, broken("thread")).exit_code == 0);
}

TEST_CASE("plugin: crashes and endless loops are errors of the run where it is isolated") {
  const TempDir dir;
  const auto isolated = [](const std::string& file, const char* how, const char* when, const char* timeout) {
    json options = {{"path", plugin(file)}, {"isolate", true}, {"timeout", timeout}};
    if (file == "broken") {
      options["how"] = how;
      options["when"] = when;
    }
    return options;
  };
  std::vector<WrongPlugin> rows = {
      {"a crash while it is loaded", isolated("constructor_crashes", "", "", "10s"), {"crashed: Segmentation fault"}},
      {"an exception while it is loaded", isolated("constructor_throws", "", "", "10s"), {"crashed: Aborted"}},
      {"a loop while it is loaded", isolated("constructor_loops", "", "", "200ms"), {"within 0.2 s", "timeout"}},
  };
  for (const char* when : {"create", "plan", "destroy"}) {
    rows.push_back({"a null pointer", isolated("broken", "segfault", when, "10s"), {"crashed: Segmentation fault"}});
    rows.push_back({"a loop", isolated("broken", "loop", when, "200ms"), {"within 0.2 s", "timeout"}});
  }
  rows.push_back({"abort()", isolated("broken", "abort", "plan", "10s"), {"crashed: Aborted"}});
  rows.push_back({"a division by zero", isolated("broken", "divide", "plan", "10s"), {"crashed: Floating point"}});
  rows.push_back({"exit()", isolated("broken", "exit", "plan", "10s"), {"exit code 0"}});
  rows.push_back({"recursion without end", isolated("broken", "overflow", "plan", "10s"), {"crashed: Segmentation"}});
  rows.push_back({"all memory", isolated("broken", "eat", "plan", "30s"), {"exception", "bad_alloc"}});
  for (const WrongPlugin& row : rows) {
    check_refused(dir, row);
  }
}

TEST_CASE("plugin: a crash or exit() in the program's own process names the plug-in and is no success") {
  const TempDir dir;
  const struct {
    const char *how, *mentions;
  } rows[] = {{"segfault", "plug-in 'broken' crashed"},
              {"overflow", "plug-in 'broken' crashed"},
              {"exit", "plug-in 'broken' called exit()"}};
  for (const auto& row : rows) {
    CAPTURE(row.how);
    const Outcome here = plan_with(dir, {{"path", plugin("broken")}, {"how", row.how}});
    CAPTURE(here.err);
    CHECK(here.exit_code != 0);
    CHECK(here.err.find(row.mentions) != std::string::npos);
    CHECK(here.err.find("isolate: true") != std::string::npos);
  }
}

TEST_CASE("plugin: isolated, it gives the same plan and the same run") {
  const TempDir dir;
  const json options = {{"path", plugin("good")}, {"first", 1}, {"reverse", true}};
  json isolated = options;
  isolated["isolate"] = true;
  const Outcome there = plan_with(dir, isolated);
  CAPTURE(there.err);
  CHECK(there.exit_code == 0);
  CHECK(there.out == plan_with(dir, options).out);
  std::string scenario = slurp(epsim::test::data_dir() / "small.yaml");
  std::ofstream(dir / "both.yaml") << scenario << "policies:\n  here: {plugin: " << plugin("good")
                                   << "}\n  there: {plugin: " << plugin("good") << ", isolate: true, timeout: 20s}\n";
  const Outcome both = run_epsim(dir, "compare both.yaml --policies here,there -q -o out");
  CAPTURE(both.err);
  REQUIRE(both.exit_code == 0);
  CHECK(slurp(dir / "out/here/requests.csv") == slurp(dir / "out/there/requests.csv"));
}

TEST_CASE("plugin: it is listed, and an unknown policy's message names it") {
  const TempDir dir;
  CHECK(run_epsim(dir, "list policies").out.find("plugin") != std::string::npos);
  CHECK(run_epsim(dir, "validate " + small_scenario() + " --policies plugn").err.find("plugin") != std::string::npos);
  CHECK(run_epsim(dir, "validate " + small_scenario() + " --policies ./mine.so").err.find("{plugin: ./mine.so}") !=
        std::string::npos);
  std::ofstream(dir / "request.json") << R"({"policy": "mine.so", "weights": [[4, 3, 2, 1]], "num_gpus": 2})";
  CHECK(run_epsim(dir, "plan request.json -o -").err.find(R"({"path": "mine.so"})") != std::string::npos);
}
