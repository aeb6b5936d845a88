// Inputs made to hang, crash or fill the memory: each is refused with exit code 2 and a message, within a small amount
// of memory. The limits are docs/limits.md's.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim_within;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

struct Hostile {
  const char* name;
  std::string arguments;
  std::vector<std::string> mentions;
};

void write_bytes(const TempDir& dir, const std::string& name, const std::string& bytes) {
  std::ofstream(dir / name, std::ios::binary) << bytes;
}

// A file of `bytes` zeros that takes no room on the disk.
void write_sparse(const TempDir& dir, const std::string& name, std::uintmax_t bytes) {
  write_bytes(dir, name, "");
  std::filesystem::resize_file(dir / name, bytes);
}

std::string laughing(int levels) {
  std::string text = "a0: &a0 x\n";
  for (int i = 1; i < levels; ++i) {
    const std::string name = "a" + std::to_string(i), before = "a" + std::to_string(i - 1);
    text.append(name).append(": &").append(name).append(" [*").append(before).append(", *").append(before).append(
        "]\n");
  }
  return text;
}

std::string little64(std::uint64_t value) {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(value >> 8 * i & 255));
  }
  return out;
}

// A recording of TensorRT-LLM: its folder with one rank's safetensors header.
void write_trtllm(const TempDir& dir, const std::string& folder, int experts, const std::string& header) {
  std::filesystem::create_directory(dir / folder);
  write_bytes(dir, folder + "/meta_info.json",
              "{\"num_experts\": " + std::to_string(experts) + ", \"num_experts_per_token\": 2}");
  write_bytes(dir, folder + "/rank0.safetensors", little64(header.size()) + header);
  std::filesystem::resize_file(dir / folder / "rank0.safetensors",
                               8 + header.size() + 4 * static_cast<unsigned>(experts));
}

std::string plan_of(const std::string& more) {
  return R"({"policy": "eplb", "weights": [[4, 3, 2, 1]], )" + more + "}";
}

void check_refused(const TempDir& dir, const std::vector<Hostile>& rows) {
  constexpr long kMostMebibytes = 256;
  for (const Hostile& row : rows) {
    CAPTURE(row.name);
    const Outcome outcome = run_epsim_within(dir, row.arguments);
    CAPTURE(outcome.err.substr(0, 400));
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.starts_with("epsim: "));
    CHECK_MESSAGE(outcome.peak_mebibytes < kMostMebibytes, outcome.peak_mebibytes);
    for (const std::string& word : row.mentions) {
      CHECK_MESSAGE(outcome.err.find(word) != std::string::npos, "the message should mention " << word);
    }
  }
}

}  // namespace

TEST_CASE("hostile documents") {
  const TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  write_sparse(dir, "sparse.yaml", std::uintmax_t{6} << 30);
  write_bytes(dir, "laughs30.yaml", laughing(30));
  write_bytes(dir, "laughs90.yaml", laughing(90));
  write_bytes(dir, "deep.yaml", "a: " + std::string(100000, '[') + std::string(100000, ']'));
  write_bytes(dir, "utf16.yaml", std::string("\xFF\xFEn\0a\0m\0e\0:\0 \0x\0", 16));
  write_bytes(dir, "utf32.yaml", std::string("\xFF\xFE\0\0n\0\0\0:\0\0\0", 12));
  write_bytes(dir, "deep.json", std::string(200000, '['));
  write_bytes(dir, "infinite.json", plan_of(R"("num_gpus": 1e999)"));
  check_refused(dir,
                {
                    {"nested anchors, 30 x 2", "validate laughs30.yaml", {"laughs30.yaml:20", "aliases"}},
                    {"nested anchors, 90 x 2", "validate laughs90.yaml", {"laughs90.yaml:20", "aliases"}},
                    {"100,000 lists", "validate deep.yaml", {"deep.yaml:1", "levels of nesting"}},
                    {"a device", "validate /dev/zero", {"/dev/zero", "device"}},
                    {"a pipe", "validate pipe", {"pipe: this is a pipe"}},
                    {"6 GiB", "validate sparse.yaml", {"sparse.yaml", "67108864"}},
                    {"UTF-16", "validate utf16.yaml", {"utf16.yaml", "UTF-8"}},
                    {"UTF-32", "validate utf32.yaml", {"utf32.yaml", "UTF-8"}},
                    {"request: a device", "plan /dev/zero -o -", {"/dev/zero", "device"}},
                    {"request: a pipe", "plan pipe -o -", {"pipe: this is a pipe"}},
                    {"request: 6 GiB", "plan sparse.yaml -o -", {"67108864"}},
                    {"request: 200,000 lists", "plan deep.json -o -", {"deep.json"}},
                    {"request: 1e999", "plan infinite.json -o -", {"infinite.json", "1.8e308"}},
                    {"request: zeros on standard input", "plan - -o - < /dev/zero", {"standard input", "67108864"}},
                });
}

TEST_CASE("hostile sizes") {
  const TempDir dir;
  write_bytes(dir, "copies.json", plan_of(R"("num_gpus": 2, "num_replicas": 200000000)"));
  write_bytes(dir, "gpus.json", plan_of(R"("num_gpus": 2000000000, "num_replicas": 2000000000)"));
  const std::string validate = "validate " + small_scenario() + " --set ",
                    generate = "trace generate deepseek-r1-a -o t.h5 ";
  check_refused(
      dir,
      {
          // small.yaml's nodes have 8 GPUs: 8 x (2^31 - 1).
          {"2^31 - 1 nodes", validate + "cluster.nodes=2147483647", {"cluster.nodes", "17179869176 GPUs", "65536"}},
          {"4 x 10^8 nodes", validate + "cluster.nodes=400000000", {"cluster.nodes", "3200000000 GPUs"}},
          {"10^6 instances", validate + "deployment.instances=1000000", {"deployment.instances", "at most 65536"}},
          {"2 x 10^8 copies", "plan copies.json -o -", {"num_replicas", "200000000 slots"}},
          {"2 x 10^9 GPUs", "plan gpus.json -o -", {"num_gpus", "at most 65536"}},
          {"10^12 rows", generate + "--rows 1000000000000", {"rows", "values in a generated trace"}},
          {"10^15 tokens", generate + "--tokens 1000000000000000", {"tokens", "values in a generated trace"}},
          {"2 x 10^9 sources", generate + "--rows 1 --sources 2000000000", {"sources", "one row of loads"}},
          {"10^18 tokens a row", generate + "--rows 1 --tokens-per-row 1000000000000000000", {"tokens-per-row"}},
      });
  CHECK_FALSE(std::filesystem::exists(dir / "t.h5"));
}

TEST_CASE("hostile recordings") {
  const TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  write_trtllm(dir, "deep", 8, "{\"a\":" + std::string(20U << 20, '['));
  std::string header = "{";
  for (int layer = 0; layer < 4096; ++layer) {  // 4096 layers x 65536 experts: 2^28 counts a row
    header += (layer == 0 ? "\"0_" : ",\"0_") + std::to_string(layer) +
              R"(":{"dtype":"I32","shape":[65536],"data_offsets":[0,262144]})";
  }
  write_trtllm(dir, "wide", 65536, header + "}");
  write_bytes(dir, "infinite.json", R"({"logical_count": [[1e999, 2, 3, 1]]})");
  const std::string run = "run " + small_scenario() + " -q -o out --set ";
  std::vector<Hostile> rows = {
      {"a safetensors header of 20 Mi lists",
       "trace import deep --format trtllm -o t.h5",
       {"rank0", "levels of nesting"}},
      {"2^28 counts a row", "trace import wide --format trtllm -o t.h5", {"268435456 counts in one row"}},
      {"1e999", run + "'loads={kind: sglang_counts, path: infinite.json}'", {"infinite.json", "1.8e308"}},
  };
  const std::string raw = "--format token_binary --experts 8 --top-k 2 --layers 2 --model m --model-layers 2 -o t.h5";
  for (const std::string file : {"pipe", "/dev/zero"}) {
    const std::string kind = file == "pipe" ? "a pipe" : "a device";
    for (const char* reader : {"azure_csv", "mooncake_jsonl", "burstgpt_csv", "trace_file", "servegen"}) {
      rows.push_back({reader, run + "'requests={kind: " + reader + ", path: " + file + "}'", {kind}});
    }
    for (const char* reader : {"sglang_counts", "trace_file"}) {
      rows.push_back({reader, run + "'loads={kind: " + reader + ", path: " + file + "}'", {kind}});
    }
    rows.push_back({"info", "trace info " + file, {kind}});
    rows.push_back({"import", "trace import " + file + " -o t.h5", {kind}});
    rows.push_back({"import of bytes", "trace import " + file + " " + raw, {kind}});
    rows.push_back({"diagnose", "diagnose " + file, {kind}});
  }
  check_refused(dir, rows);
}

TEST_CASE("output that a full device does not take is an error") {
  const TempDir dir;
  for (const std::string& arguments :
       {std::string("--version"), std::string("--help"), std::string("list models"), "validate " + small_scenario()}) {
    CAPTURE(arguments);
    const Outcome outcome = run_epsim_within(dir, arguments + " > /dev/full");
    CHECK(outcome.exit_code == 1);
    CHECK(outcome.err.find("standard output cannot be written") != std::string::npos);
  }
}

TEST_CASE("a pipe on standard input that stays open does not keep SIGTERM or Ctrl-C from ending the program") {
  const TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  for (const std::string signal : {"TERM", "INT"}) {
    // timeout ends with 124 where the signal was enough, and with 137 where it had to send SIGKILL 20 s later.
    const std::string command = "cd '" + dir.path().string() + "' && timeout -k 20 -s " + signal +
                                " 0.5 '" EPSIM_BINARY "' plan - -o - <>pipe >/dev/null 2>&1";
    const int status = std::system(command.c_str());
    CAPTURE(signal);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 124);
  }
}
