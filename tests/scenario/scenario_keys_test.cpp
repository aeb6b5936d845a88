// The table of scenario keys, and the errors that come from it.
#include "sim/scenario/scenario_keys.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <set>

#include "sim/core/files.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

constexpr const char* kBase = R"(name: keys
cluster: {node: p4de.24xlarge, nodes: 2}
model: {architecture: olmoe-1b-7b}
memory: {static_fraction: 0.8}
requests: {kind: poisson, rate: 20/s, count: 4, input_tokens: 70, output_tokens: 2}
loads: {kind: uniform}
plan_loads: {kind: uniform}
)";

TEST_CASE("a sentence is one, and every choice is a word") {
  std::set<std::pair<std::string, std::string>> seen;
  for (const ScenarioKey& key : scenario_keys()) {
    CAPTURE(std::string(key.path));
    CHECK(seen.insert({key.path, key.variants}).second);
    CHECK(key.sentence.ends_with('.'));
    CHECK(key.sentence.size() < 130);
    CHECK_FALSE(key.fallback.empty());
    if (!key.choices.empty()) {
      CHECK(key.choices.size() > 1);
    }
  }
}

TEST_CASE("every shipped scenario has keys of the table alone") {
  int scenarios = 0;
  for (const char* root : {"experiments", "tests/data"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_dir() / root)) {
      const std::string text = entry.path().extension() == ".yaml" ? read_file(entry.path()) : "";
      if (text.find("\ncluster:") == std::string::npos && text.find("\nextends:") == std::string::npos) {
        continue;
      }
      CAPTURE(entry.path().string());
      ScenarioCheck check = check_scenario_keys(Config::from_file(entry.path()).root());
      if (entry.path().stem() == "common") {
        check.errors.clear();  // what others extend lacks required keys
      }
      CHECK(check.errors.empty());
      CHECK(check.unknown.empty());
      for (const auto& list : {check.errors, check.unknown}) {
        for (const InputError& error : list) {
          MESSAGE(std::string(error.what()));
        }
      }
      ++scenarios;
    }
  }
  CHECK(scenarios > 20);
}

InputErrors errors_of(const std::string& text) {
  return test::error_of<InputErrors>([&] { read_scenario(Config::from_text(text, "a.yaml"), {}); });
}

TEST_CASE("all errors of a file are told at once, in its order") {
  const InputErrors e = errors_of(R"(name: x
cluster: {node: p4de.24xlarge, nods: 2}
model: {architecture: olmoe-1b-7b, dtype: int5}
memory: {static_fraction: 1.5, reserve: 5}
requests: {kind: poisson, rate: 20, count: 4, input_tokens: 70, output_tokens: 2}
loads: {kind: zipf, exponent: 0.1, drfit: 1}
plan_loads: {kind: zipf}
exectuion: {}
)");
  std::string told;
  for (const InputError& error : e.all) {
    told += fmt::format("{} {}\n", error.place.line, error.place.key);
  }
  CHECK(told ==
        "2 cluster.nodes\n3 model.dtype\n4 memory.static_fraction\n4 memory.reserve\n5 requests.rate\n6 loads.drfit\n7 "
        "plan_loads.exponent\n"
        "8 exectuion\n");
  test::check_contains(e.what(), {"`cluster.nodes`: this key is required and missing; line 2 has 'nods'",
                                  "`model.dtype`: unknown value 'int5'", "has no unit", "nearest first: drift",
                                  "nearest first: execution"});
}

TEST_CASE("a key is told once, by what its reader says of it") {
  const auto e = test::error_of<InputError>([] {
    read_scenario(Config::from_text(R"(name: x
cluster: {node: p4de.24xlarge, nodes: 2}
model: {architecture: olmoe-1b-7b}
serving: {engine: sglang_0_4_8, max_num_seqs: 4}
requests: {kind: poisson, rate: 20/s, count: 4, input_tokens: 70, output_tokens: 2}
loads: {kind: uniform}
plan_loads: {kind: uniform}
)",
                                    "a.yaml"),
                  {});
  });
  CHECK(e.place.key == "serving.max_num_seqs");
  test::check_contains(e.what(), {"a.yaml:4", "this is a knob of vllm_v1"});
  CHECK(std::string(e.what()).find("unknown key") == std::string::npos);
}

TEST_CASE("a routing model in place of a scenario is told in one error") {
  const auto e = test::error_of<InputError>(
      [] { read_scenario(Config::from_text("format: epsim-routing-model\nversion: 1\nname: x\n", "mine.yaml"), {}); });
  test::check_contains(e.what(), {"mine.yaml:1", "format", "loads: {kind: model, path: FILE}"});
  CHECK(std::string(e.what()).find("version") == std::string::npos);
}

TEST_CASE("errors between keys are told of every section that can be read") {
  const InputErrors e = errors_of(R"(name: x
cluster: {node: p4de.24xlarge, nodes: 2}
model: {architecture: olmoe-1b-7b}
memory: {static_fraction: 1.5}
requests: {kind: poisson, rate: 20/s, input_tokens: 70, output_tokens: 2}
loads: {kind: zipf, exponent: 9}
plan_loads: {kind: uniform}
)");
  REQUIRE(e.all.size() == 3);
  CHECK(e.all[0].place.key == "memory.static_fraction");  // above 1
  CHECK(e.all[1].place.key == "requests.count");          // neither count nor duration
  CHECK(e.all[2].place.key == "loads.exponent");          // more than one assignment per token
}

TEST_CASE("one error alone is told as before") {
  const auto e = test::error_of<InputError>(
      [] { read_scenario(Config::from_text(std::string(kBase) + "execution: {sync: pair}\n", "a.yaml"), {}); });
  CHECK(std::string(e.what()).find("a.yaml:8: `execution.sync`: unknown value 'pair'") == 0);
}

}  // namespace
}  // namespace epsim
