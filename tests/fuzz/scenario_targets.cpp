// Scenarios, as text and by their grammar.
#include <string>

#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario_keys.h"
#include "tests/fuzz/choices.h"
#include "tests/fuzz/targets.h"

namespace epsim::fuzz {

namespace {

// Any text either reads as a scenario or ends in an InputError.
void scenario(const std::string& bytes) {
  try {
    read_scenario(Config::from_text(bytes, "fuzz.yaml"), {});
  } catch (const InputError&) {
  }
}

constexpr std::array kValues = {"1",
                                "0",
                                "2",
                                "8",
                                "-1",
                                "0.5",
                                "1e-300",
                                "9223372036854775807",
                                "nan",
                                "inf",
                                "true",
                                "false",
                                "null",
                                "''",
                                "[]",
                                "{}",
                                "[1]",
                                "[1,2]",
                                "[4,4,4]",
                                "text",
                                "1ns",
                                "3us",
                                "5s",
                                "400h",
                                "1KiB",
                                "80GiB",
                                "1GB/s",
                                "400Gb/s",
                                "10/s",
                                "1e9/s",
                                "{kind: fixed}",
                                "[{kind: gpu, at: 1s}]"};
constexpr std::size_t kMostKeys = 16;

// A path that a file may have: a label of its own in place of *.
std::string path_of(const ScenarioKey& key) {
  std::string out = key.path;
  for (std::size_t at = out.find('*'); at != std::string::npos; at = out.find('*')) {
    out.replace(at, 1, "mine");
  }
  for (std::size_t at = out.find("[]"); at != std::string::npos; at = out.find("[]")) {
    out.erase(at);  // a list: given whole
  }
  return out;
}

std::string scenario_of(Choices& choices) {
  return choices.below(2) == 0
             ? "name: fuzz\ncluster: {node: DGX-H100, nodes: 2}\nmodel: {architecture: olmoe-1b-7b}\n"
               "requests: {kind: poisson, rate: 10/s, count: 4, input_tokens: 64, output_tokens: 4}\n"
             : "name: fuzz\ncluster: {node: p5.48xlarge, nodes: 4}\nmodel: {architecture: deepseek-v2-lite}\n"
               "deployment: {prefill: {nodes: 2}, decode: {nodes: 2}}\nserving: {engine: sglang}\n"
               "requests: {kind: poisson, rate: 10/s, count: 4, input_tokens: 64, output_tokens: 4}\n";
}

// The input gives keys of the table (sim/scenario/scenario_keys.h) values that they may have, or odd ones. Every such
// scenario is read, or ends in an InputError.
void scenario_keys_of(const std::string& bytes) {
  Choices choices(bytes);
  try {
    Config config = Config::from_text(scenario_of(choices), "fuzz.yaml");
    const std::vector<ScenarioKey>& keys = scenario_keys();
    for (std::size_t i = 0; i < kMostKeys && !choices.done(); ++i) {
      const ScenarioKey& key = keys[choices.below(keys.size())];
      const bool named = !key.choices.empty() && choices.below(4) > 0;
      config.set(path_of(key) + "=" + (named ? key.choices[choices.below(key.choices.size())] : choices.of(kValues)));
    }
    read_scenario(config, {});
  } catch (const InputError&) {
  }
}

constexpr Target kScenarioTargets[] = {{"scenario", scenario}, {"scenario_keys", scenario_keys_of}};

}  // namespace

std::span<const Target> scenario_targets() { return kScenarioTargets; }

}  // namespace epsim::fuzz
