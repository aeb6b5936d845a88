// Wrong input of every kind: exit code 2, one paragraph that names the place and what is allowed, nothing written.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

struct Wrong {
  const char* name;
  std::string arguments;              // after the scenario
  std::vector<std::string> mentions;  // all of these stand in the message
};

void write(const TempDir& dir, const std::string& name, const std::string& text) { std::ofstream(dir / name) << text; }

// The files that the rows below read.
void write_files(const TempDir& dir) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  write(dir, "unsorted.csv", header + "2023-11-16 18:15:46.0,10,5\n2023-11-16 18:15:45.0,10,5\n");
  write(dir, "twice.csv", header + "2023-11-16 18:15:46.0,10,5\n2023-11-16 18:15:46.0,10,5\n");
  write(dir, "zero.csv", header + "2023-11-16 18:15:46.0,10,0\n");
  write(dir, "negative.csv", header + "2023-11-16 18:15:46.0,10,-4\n");
  write(dir, "cut.csv", header + "2023-11-16 18:15:46.0,10,5\n2023-11-16 18:1");
  write(dir, "garbage.csv", std::string("\x7f\x01\xff\xfe garbage\n\0\0", 15));
  write(dir, "empty.csv", "");
  write(dir, "cut.json", "{\"logical_count\": [[1, 2, 3");
  write(dir, "garbage.json", "\xff\xfe\x01 not json");
  write(dir, "shape.json", "{\"logical_count\": [[1, 2, 3]]}");
  write(dir, "bad.yaml", "name: [unclosed\n");
}

std::string azure(const std::string& file) { return "--set 'requests={kind: azure_csv, path: " + file + "}'"; }
std::string counts(const std::string& file) { return "--set 'loads={kind: sglang_counts, path: " + file + "}'"; }

}  // namespace

TEST_CASE("wrong input ends with a clear error, exit code 2 and nothing written") {
  const TempDir dir;
  write_files(dir);
  const std::vector<Wrong> rows = {
      {"unknown key", "--set serving.chunked_prefil_size=5", {"chunked_prefil_size", "chunked_prefill_size"}},
      {"unknown section", "--set clutser.nodes=5", {"clutser", "cluster"}},
      {"a chunk below a KV block",
       "--set serving.chunked_prefill_size=8 --set memory.kv_block_tokens=16",
       {"serving.chunked_prefill_size", "KV block of 16"}},
      {"wrong type", "--set cluster.nodes=many", {"cluster.nodes", "many", "whole number"}},
      {"negative", "--set memory.reserve=-1GiB", {"memory.reserve", "negative"}},
      {"not a number", "--set memory.static_fraction=.nan", {"memory.static_fraction", "finite"}},
      {"infinite", "--set memory.static_fraction=.inf", {"memory.static_fraction", "finite"}},
      {"no unit", "--set requests.rate=4", {"requests.rate", "unit", "/s"}},
      {"zero rate", "--set requests.rate=0/s", {"requests.rate"}},
      {"a rate beyond any", "--set requests.rate=1e300/s", {"requests.rate", "it must be at most 1000000000000"}},
      {"share over one", "--set memory.static_fraction=1.5", {"memory.static_fraction"}},
      {"unknown policy", "--set policy=elpb", {"elpb", "eplb"}},
      {"unknown kind of a policy", "--set policies.mine.kind=harmony", {"policies.mine.kind", "first: harmoeny"}},
      {"unknown node", "--set cluster.node=p4ed", {"p4ed", "p4de.24xlarge"}},
      {"unknown model", "--set model.architecture=deepsek-r1", {"deepsek-r1", "DeepSeek-R1"}},
      {"missing trace", azure("nowhere.csv"), {"nowhere.csv", "no such file"}},
      {"truncated CSV", azure("cut.csv"), {"cut.csv:3"}},
      {"garbage CSV", azure("garbage.csv"), {"garbage.csv"}},
      {"empty CSV", azure("empty.csv"), {"empty.csv"}},
      {"unsorted timestamps", azure("unsorted.csv"), {"unsorted.csv:3"}},
      {"duplicate timestamps", azure("twice.csv") + " --set requests.equal_timestamps=error", {"twice.csv:3"}},
      {"zero-token request", azure("zero.csv"), {"zero.csv:2"}},
      {"negative tokens",
       azure("negative.csv"),
       {"negative.csv:2: `GeneratedTokens`: -4 tokens; a number of tokens is 0 or more."}},
      {"truncated JSON", counts("cut.json"), {"cut.json"}},
      {"garbage JSON", counts("garbage.json"), {"garbage.json"}},
      {"wrong shape", counts("shape.json"), {"shape.json", "64"}},
      {"request longer than the KV pool", "--set memory.num_gpu_blocks=600", {"request 1", "KV"}},
      {"experts do not divide over GPUs", "--set cluster.nodes=3", {"64 experts", "24 GPUs"}},
      {"a plan that does not fit",
       "--set policy=eplb --set plan_loads.drift=0.1 --set policies.eplb.num_redundant_experts=32000",
       {"GPU 0", "GiB", "eplb"}},
      {"a model that does not fit",
       "--set model.architecture=mixtral-8x22b --set cluster.nodes=1 --set "
       "memory.static_fraction=0.1 --set parallelism.attention_tp=8",
       {"GPU 0", "GiB"}},
      {"attention over two nodes", "--set parallelism.attention_tp=16", {"attention_tp"}},
      {"unknown option", "--polices base", {"--polices"}},
      {"a key as an option", "--policy eplb", {"--policy", "--set policy=VALUE"}},
      {"a word for a number", "--threads two", {"'two'", "--threads", "whole number"}},
      {"malformed override", "--set nodes", {"key=value"}},
      {"label with a slash", "--set policies.a/b.kind=eplb --set policy=a/b", {"a/b", "slash"}},
      {"no window to plan from", "--set plan_loads=null", {"plan_loads", "required"}},
  };
  for (const Wrong& row : rows) {
    CAPTURE(row.name);
    const Outcome outcome = run_epsim(dir, "run " + small_scenario() + " -o out " + row.arguments);
    CAPTURE(outcome.err);
    CHECK(outcome.exit_code == 2);
    for (const std::string& word : row.mentions) {
      CHECK_MESSAGE(outcome.err.find(word) != std::string::npos, "the message should mention " << word);
    }
    CHECK(outcome.err.starts_with("epsim: "));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') <= 2);
    CHECK(outcome.out.empty());
    CHECK_FALSE(std::filesystem::exists(dir / "out"));
  }
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    CHECK_MESSAGE(entry.path().filename().string().find("partial") == std::string::npos, entry.path());
  }
}

TEST_CASE("scenario files that are no scenarios") {
  const TempDir dir;
  write_files(dir);
  CHECK(run_epsim(dir, "run nowhere.yaml").err.find("nowhere.yaml: there is no such file") != std::string::npos);
  CHECK(run_epsim(dir, "run experiments/nowhere.yaml").err.find("run in epsim's checkout, or install") !=
        std::string::npos);
  std::filesystem::create_directory(dir / "experiments");  // the folder is there, and the name misspelt
  CHECK(run_epsim(dir, "run experiments/nowhere.yaml").err.find("there is no such file") != std::string::npos);
  const Outcome bad = run_epsim(dir, "run bad.yaml");
  CHECK(bad.exit_code == 2);
  CHECK(bad.err.find("bad.yaml:") != std::string::npos);
  write(dir, "question.yaml", "model: olmoe-1b-7b\nslo: ttft.p99<1s\nsizes: [1]\n");
  for (const char* verb : {"validate", "run"}) {
    const Outcome question = run_epsim(dir, std::string(verb) + " question.yaml");
    CHECK(question.exit_code == 2);
    CHECK(question.err.find("question.yaml: this is a file for `epsim capacity`") != std::string::npos);
  }
  CHECK(run_epsim(dir, "run").exit_code == 2);
  CHECK(run_epsim(dir, "rnu x").err.find("run") != std::string::npos);
  CHECK(run_epsim(dir, "compare " + small_scenario()).err.find("--policies") != std::string::npos);
  CHECK(run_epsim(dir, "run " + small_scenario() + " --policies base,eplb").err.find("--set policy=NAME") !=
        std::string::npos);
  // Of the option, not of a file, and step policies are among those that are known.
  CHECK(run_epsim(dir, "compare " + small_scenario() + " --policies base,hrmoeny")
            .err.starts_with("epsim: `policies`: unknown policy 'hrmoeny'. Known, the nearest first: harmoeny,"));
}

TEST_CASE("output folders that cannot be used") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "taken");
  write(dir, "taken/file", "x");
  const Outcome existing = run_epsim(dir, "run " + small_scenario() + " -o taken");
  CHECK(existing.exit_code == 2);
  CHECK(existing.err.find("--overwrite") != std::string::npos);
  const Outcome unwritable = run_epsim(dir, "run " + small_scenario() + " -o /proc/epsim-output");
  CHECK(unwritable.exit_code == 2);
  CHECK(unwritable.err.find("cannot be made") != std::string::npos);
  const Outcome a_file = run_epsim(dir, "run " + small_scenario() + " -o taken/file");
  CHECK(a_file.exit_code == 2);
}

TEST_CASE("the line of the scenario file is named") {
  const TempDir dir;
  write(dir, "s.yaml",
        "name: x\ncluster: {node: p4de.24xlarge, nodes: 1}\nmodel:\n  architecture: olmoe-1b-7b\n  dtyp: bf16\n");
  const Outcome outcome = run_epsim(dir, "validate s.yaml");
  CHECK(outcome.exit_code == 2);
  CHECK_MESSAGE(outcome.err.find("s.yaml:") != std::string::npos, outcome.err);
}

TEST_CASE("an option given twice, or beside one that says the same, is refused by name") {
  const TempDir dir;
  const auto refused = [&](const std::string& words, const std::string& why) {
    const Outcome told = run_epsim(dir, words);
    CAPTURE(words);
    CHECK(told.exit_code == 2);
    CHECK_MESSAGE(told.err.find(why) != std::string::npos, told.err);
  };
  refused("validate " + small_scenario() + " --set seed=1 --seed 2", "`seed`: --set seed=... says the same");
  refused("validate " + small_scenario() + " --set seed=1 --set seed=2", "`seed`: this key is set twice");
  refused("goodput " + small_scenario() + " --slo 'ttft<2s' --k 3", "`k`: this option is for the knee");
  refused("compare " + small_scenario() + " --policies base,base", "epsim: `policies`: 'base' is named twice");
  refused("validate " + small_scenario() + " --accuracy", "--accuracy runs scenarios of its own; leave this out.");
  refused("trace slice trace.h5 --layers ''",
          "`layers`: the list is empty; it takes whole numbers separated by commas.");
  refused("sweep --status nofolder", "nofolder: there is no such folder.");
  const std::string ask = "capacity --model olmoe-1b-7b --rate 1/s --input-tokens 9 --output-tokens 9 --ttft 1s ";
  refused(ask + "--nodes DGX-H100,DGX-H100", "`nodes`: 'DGX-H100' is named twice.");
  refused(ask + "--times 0", "`times`: a factor on the rate must be above 0.");
  refused(ask + "--set memory.reserve=1GiB --set memory.reserve=2GiB", "`memory.reserve`: this key is set twice");
  refused("capacity " + small_scenario() + " --rate 5/s", "`model`: this is a scenario; capacity takes a question");
}

TEST_CASE("validate refuses what run refuses") {
  const TempDir dir;
  for (const char* set : {"requests.input_tokens=1000000000", "'protocol.slo=ttft<2'"}) {
    const std::string rest = small_scenario() + " --set " + set;
    const Outcome validated = run_epsim(dir, "validate " + rest), ran = run_epsim(dir, "run -q -o out " + rest);
    CHECK(validated.exit_code == 2);
    CHECK(ran.exit_code == 2);
    CHECK(validated.err == ran.err);
  }
}
