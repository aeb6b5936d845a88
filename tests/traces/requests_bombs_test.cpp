// Small gzip files that unpack to much: every reader stops with an error before it has taken much memory.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include "tests/support/paths.h"
#include "tests/traces/requests_support.h"
#include "tests/traces/requests_tar.h"
#include "tests/traces/support.h"

namespace epsim {
namespace {

using test::message;

constexpr std::size_t kUnpacked = std::size_t{64} << 20;

// `head`, then `unit` again and again.
void write_bomb(const std::string& file, const std::string& head, const std::string& unit) {
  std::string block;
  while (block.size() < (1 << 20)) {
    block += unit;
  }
  gzFile out = gzopen(file.c_str(), "wb1");
  gzwrite(out, head.data(), static_cast<unsigned>(head.size()));
  for (std::size_t done = 0; done < kUnpacked; done += block.size()) {
    gzwrite(out, block.data(), static_cast<unsigned>(block.size()));
  }
  gzclose(out);
}

// The most memory that the process has had, in bytes.
std::size_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
}

const char* const kKinds[] = {
    "{kind: azure_csv}",      "{kind: burstgpt_csv}",
    "{kind: mooncake_jsonl}", "{kind: benchmark_jsonl}",
    "{kind: servegen}",       "{kind: csv, arrival_column: a, input_column: b, output_column: c}",
    "{kind: trace_file}",     "{kind: auto}"};

TEST_CASE("64 MiB of zeros") {
  const test::TempDir folder;
  const std::string file = (folder / "zeros.gz").string();
  write_bomb(file, "", std::string(1, '\0'));
  const std::size_t before = peak_bytes();
  for (const char* kind : kKinds) {
    CAPTURE(kind);
    CHECK_FALSE(message([&] { test::table_of(kind, file); }).empty());
  }
  CHECK(peak_bytes() - before < (std::size_t{48} << 20));
}

TEST_CASE("bombs that begin like the real thing") {
  struct Row {
    const char* kind;
    std::string head, unit;
  };
  const std::string columns = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const test::TempDir folder;
  const std::string file = (folder / "bomb.gz").string();
  for (const Row& r : {
           Row{"{kind: azure_csv}", columns, "9"},
           Row{"{kind: azure_csv}", columns, "\n"},
           Row{"{kind: azure_csv}", columns + "\"", ","},
           Row{"{kind: mooncake_jsonl}", "{\"timestamp\": ", "9"},
           Row{"{kind: mooncake_jsonl}", "{\"timestamp\": ", " "},
           Row{"{kind: mooncake_jsonl}", "{\"x\": \"", "y,"},
           Row{"{kind: mooncake_jsonl}", "{\"x\": ", "["},
           Row{"{kind: benchmark_jsonl}", "{\"generated_texts\": [\"", "yz"},
           Row{"{kind: benchmark_jsonl}", "", "{}\n"},
           Row{"{kind: servegen}", test::tar_entry("chunk-1-trace.csv", ""), "x"},
       }) {
    CAPTURE(r.head);
    write_bomb(file, r.head, r.unit);
    const std::size_t before = peak_bytes();
    CHECK_FALSE(message([&] { test::table_of(r.kind, file); }).empty());
    CHECK(peak_bytes() - before < (std::size_t{48} << 20));
  }
}

}  // namespace
}  // namespace epsim
