// The table of scenario keys against what readers ask for, and the errors that come from it.
#include "sim/scenario/scenario_keys.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "sim/core/files.h"
#include "sim/scenario/read_scenario.h"
#include "sim/scenario/scenario.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"
#include "traces/format/trace_file.h"

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

std::string corpus(const std::string& name) { return (test::source_dir() / "tests/fuzz/corpus" / name).string(); }

// A trace that OLMoE's 16 layers of 64 experts can be read from.
std::string olmoe_trace(const test::TempDir& folder) {
  const std::filesystem::path file = folder / "olmoe.h5";
  TraceInfo info;
  info.model = "olmoe-1b-7b";
  info.model_layers = 16;
  for (int l = 0; l < 16; ++l) {
    info.layer_numbers.push_back(l);
  }
  info.experts = 64;
  info.top_k = 8;
  info.source = "a test";
  info.licence = "CC0";
  TraceFileWriter writer(file);
  writer.begin(info, 1);
  writer.loads({std::vector<double>(16 * 64, 1.0), std::vector<std::int64_t>{8}});
  writer.commit();
  return file.string();
}

// Overrides that lead readers to every key. Some name files that do not suit: what was asked before that still counts.
std::vector<std::vector<std::string>> visits(const std::string& trace) {
  std::vector<std::vector<std::string>> out = {
      {},
      {"serving={engine: sglang_0_4_8, mixed_chunk: true, speculative: {draft_tokens: 1, acceptance: 0.5}}"},
      {"serving={engine: vllm_v1, num_gpu_blocks: 4000}"},
      {"serving={engine: vllm_v1}", "memory.static_fraction=0.8"},
      {"serving={engine: sglang_0_4_10}"},
      {"deployment={instances: 2}"},
      {"deployment={prefill: {serving: {max_running_requests: 8}}, decode: {}}"},
      {"faults=[{at: 1s, gpu: 3, speed: 0.5}, {at: 1s, node: 0, nic: 0, link_speed: 0.5}]"},
      {"faults=[{at: 1s, until: 2s, gpu: 3, lost: true}]"},
      {"policy={kind: eplb}"},
      {"policies.x={plugin: no.so}"},
      {"policies.x={kind: plugin, path: no.so}"},
      {"policies.libra={n_extra: auto, window: 1ms, rate: 50GB/s, expert_bytes: 12MiB}"},
      {"requests.lengths={input: {kind: fixed, tokens: 5}, output: {kind: uniform, max: 9}}", "requests.input_tokens=~",
       "requests.output_tokens=~"},
      {"requests.lengths={input: {kind: lognormal, mean: 50, sigma: 1, max: 90}, output: {kind: fixed, tokens: 2}}",
       "requests.input_tokens=~", "requests.output_tokens=~"},
      {"requests={kind: closed_loop, concurrency: 2, count: 4, input_tokens: 70, output_tokens: 2}"},
      {"requests.lengths={input: {kind: random, tokens: 9}, output: {kind: fixed, tokens: 2}}",
       "requests.input_tokens=~", "requests.output_tokens=~"},
      {"requests={kind: closed_loop, concurrency: 2, count: 4, lengths: {input: {kind: fixed, tokens: 9}, "
       "output: {kind: fixed, tokens: 2}}}"},
      {"loads={windows: [{kind: uniform, for: 10s}, {kind: zipf, exponent: 0.1, for: 10s}]}"},
      {"requests.lengths={empirical: {kind: azure_csv, path: " + corpus("azure_csv/three.csv") + "}}",
       "requests.input_tokens=~", "requests.output_tokens=~"},
  };
  const std::string end = ", count: 4, input_tokens: 70, output_tokens: 2}";
  for (const char* made :
       {"constant, rate: 5/s", "gamma, rate: 5/s, burstiness: 1", "onoff, on_rate: 5/s, on_time: 1s, off_time: 1s",
        "diurnal, rate: 5/s, amplitude: 0.5", "diurnal, hourly_rates: [1]",
        "sessions, session_rate: 5/s, turns: 2, think_time: 1s, max_context: 5000"}) {
    out.push_back({std::string("requests={kind: ") + made + end});
  }
  for (const auto& [kind, file] : std::map<std::string, std::string>{
           {"auto", "azure_csv/three.csv"},
           {"azure_csv", "azure_csv/three.csv"},
           {"burstgpt_csv", "burstgpt_csv/three.csv"},
           {"mooncake_jsonl", "mooncake_jsonl/blocks.jsonl"},
           {"servegen", "servegen_archive/pool.tar"},
           {"benchmark_jsonl", "benchmark_jsonl/starts.json"},
           {"trace_file", "trace_file/tokens.h5"},
           {"csv, arrival_column: a, input_column: b, output_column: c", "request_csv/named.csv"}}) {
    out.push_back({"requests={kind: " + kind + ", rate: 5/s, path: " + corpus(file) + "}"});
  }
  for (const char* loads :
       {"uniform", "zipf, exponent: 0.1", "skew, low: 1, high: 2, high_share: 0.5", "skew, range: [1, 2]",
        "skew, max_over_mean: [1]", "model, preset: olmoe", "model, path: no.yaml", "imbalance, pattern: burst",
        "imbalance, pattern: zero_load", "imbalance, pattern: hot_rank"}) {
    for (const char* section : {"loads", "plan_loads"}) {
      out.push_back({std::string(section) + "={kind: " + loads + "}"});
    }
  }
  for (const char* more : {"", ", variation: sampled"}) {
    out.push_back({"loads={kind: trace_file, path: " + trace + more + "}"});
  }
  out.push_back({"loads={kind: sglang_counts, path: " + corpus("sglang/two_d.json") + "}"});
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.path == "policies.*.kind") {
      for (const std::string& kind : key.choices) {
        out.push_back({"policies.x={kind: " + kind + "}"});
      }
    } else if (key.path == "policies.*.replica_choice.kind") {
      for (const std::string& kind : key.choices) {
        for (const char* more : {"", ", draw: smooth"}) {
          out.push_back({"policies.eplb={replica_choice: {kind: " + kind + more + "}}"});
        }
      }
    } else if (key.path == "policies.*.rebalance.rule") {
      for (const std::string& kind : key.choices) {
        for (const char* mode : {"sync", "async"}) {
          out.push_back({"policies.eplb={rebalance: {rule: " + kind + ", mode: " + mode + "}}"});
        }
      }
    }
  }
  return out;
}

// Everything that readers asked for, by the table's path and variant.
const std::map<std::pair<std::string, std::string>, KeyRead>& asked_keys() {
  static const auto all = [] {
    std::map<std::pair<std::string, std::string>, KeyRead> out;
    const test::TempDir folder;
    for (const std::vector<std::string>& overrides : visits(olmoe_trace(folder))) {
      Config config = Config::from_text(kBase, "keys.yaml");
      for (const std::string& assignment : overrides) {
        config.set(assignment);
      }
      config.record_reads();
      try {
        read_scenario(config, {});
      } catch (const InputError&) {
      }
      for (const KeyRead& read : config.reads()) {
        const auto [at, fresh] = out.try_emplace({table_path(read.path), read.variant}, read);
        at->second.key = at->second.key == nullptr ? read.key : at->second.key;
      }
    }
    return out;
  }();
  return all;
}

const ScenarioKey* row_for(const std::string& path, const std::string& variant) {
  const ScenarioKey* any = nullptr;
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.path == path && key.variants.empty()) {
      any = &key;
    } else if (key.path == path && has_variant(key, variant)) {
      return &key;
    }
  }
  return any;
}

bool has_rows(const std::string& path) {
  const auto& all = scenario_keys();
  return std::any_of(all.begin(), all.end(), [&](const ScenarioKey& key) { return key.path == path; });
}

TEST_CASE("every key that a reader asks for has a row") {
  const auto& asked = asked_keys();
  CHECK(asked.size() > 200);
  for (const auto& [where, read] : asked) {
    const auto& [path, variant] = where;
    CAPTURE(path);
    CAPTURE(variant);
    if (path == "policies.*" || (variant.empty() && has_rows(path) && row_for(path, variant) == nullptr)) {
      continue;  // a label; or asked before the entry said what kind it is
    }
    const ScenarioKey* row = row_for(path, variant);
    CHECK_MESSAGE(row != nullptr, "declare `", path, "` in a row, and enter it in sim/scenario/scenario_keys.cpp");
    CHECK_MESSAGE((row == nullptr || row->row == nullptr || read.key != nullptr), "read `", path, "` through its row");
  }
}

TEST_CASE("every row of the table is a key that a reader asks for") {
  std::set<const ScenarioKey*> found;
  for (const auto& [where, read] : asked_keys()) {
    found.insert(row_for(where.first, where.second));
  }
  for (const ScenarioKey& key : scenario_keys()) {
    if (key.path == "extends") {
      continue;  // sim/core takes it out before anything is read
    }
    CHECK_MESSAGE(found.contains(&key), "nobody asks for `", std::string(key.path), "` of [", std::string(key.variants),
                  "]; remove its row");
  }
}

TEST_CASE("upper limits of the table are those of the readers") {
  for (const ScenarioKey& key : scenario_keys()) {
    if (!std::isfinite(key.range.most) || !key.variants.empty() || key.path.find_first_of("*[") != std::string::npos) {
      continue;
    }
    Config config = Config::from_text(kBase, "keys.yaml");
    if (key.path.starts_with("deployment.prefill")) {
      config.set("deployment={prefill: {}, decode: {}}");
    }
    if (key.path.starts_with("serving.speculative")) {
      config.set("serving.speculative.draft_tokens=1");
    }
    config.set(fmt::format("{}={}", key.path, key.range.most + 1));
    CAPTURE(std::string(key.path));
    CHECK(test::error_of<InputError>([&] { read_scenario(config, {}); }).place.key == std::string(key.path));
  }
}

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
model: {architecture: olmoe-1b-7b, dtype: int4}
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
                                  "`model.dtype`: unknown value 'int4'", "has no unit", "nearest first: drift",
                                  "nearest first: execution"});
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
