// Import, our format, export: nothing is lost on the real files of the shared data folder.
#include <doctest/doctest.h>

#include <map>
#include <sstream>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/export/exporter.h"
#include "traces/format/csv.h"
#include "traces/import/importer.h"

namespace epsim {
namespace {

const std::filesystem::path kData = test::shared_dir() / "data";

std::string whole_text(const std::filesystem::path& file) {  // gunzipped
  ByteInput input(file);
  std::string out, piece(1 << 16, '\0');
  for (std::size_t got = input.read(piece.data(), piece.size()); got > 0;
       got = input.read(piece.data(), piece.size())) {
    out.append(piece, 0, got);
  }
  return out;
}

TraceFile imported(const std::filesystem::path& file, const std::filesystem::path& to, const ImportOptions& options) {
  TraceFileWriter writer(to);
  import_trace(file, "auto", options, writer);
  writer.commit();
  return TraceFile(to);
}

// A text file's lines end with LF here; several of the originals have CR LF.
std::string whole_lines(const std::filesystem::path& file) {
  std::string text = whole_text(file);
  std::erase(text, '\r');
  return text;
}

std::string exported_again(const TraceFile& trace, const std::string& format) {
  std::ostringstream out;
  export_trace(trace, format, out);
  return out.str();
}

TEST_CASE("SGLang's counts: byte for byte") {
  const test::TempDir folder;
  for (const auto& entry : std::filesystem::directory_iterator(kData / "sglang-ep-statistics")) {
    if (entry.path().extension() == ".json") {
      CAPTURE(entry.path());
      const TraceFile trace = imported(entry.path(), folder / "t.h5", {.top_k = 8});
      CHECK(trace.info().layers() == 58);
      CHECK(trace.info().layer_numbers[0] == 3);
      CHECK((exported_again(trace, "sglang") == whole_text(entry.path())));
    }
  }
}

TEST_CASE("gpt-oss: ids and sequences byte for byte, positions as stated, counts as in its own table") {
  const test::TempDir folder;
  const std::filesystem::path data = kData / "gpt-oss-20b-routing";
  const TraceFile trace = imported(data / "routing_u8_T24x4.bin.gz", folder / "t.h5", {.experts = 32});
  CHECK(trace.token_count() == 215051);
  CHECK((exported_again(trace, "token_binary") == whole_text(data / "routing_u8_T24x4.bin.gz")));
  CHECK((exported_again(trace, "sequences") == whole_lines(data / "sequences.csv")));
  const Table table = trace.table("sequences");
  TraceFile::Tokens last;
  trace.read_tokens(215050, 1, last);
  CHECK(last.sequence[0] == 701);
  CHECK(last.position[0] == table.numbers("last_token_pos")->back());
  const TraceFile counts = imported(data / "expert_counts.csv", folder / "c.h5", {.top_k = 4});
  CHECK((exported_again(counts, "wide_csv") == whole_lines(data / "expert_counts.csv")));
}

TEST_CASE("OLMoE and Mixtral counts: byte for byte") {
  const test::TempDir folder;
  for (const auto& [source, k] :
       {std::pair{"olmoe_expert_counts_top8.csv", 8}, {"mixtral8x7b_expert_counts_top2.csv", 2}}) {
    const char* const name = source;
    CAPTURE(name);
    const std::filesystem::path file = kData / "olmoe-routing" / name;
    CHECK((exported_again(imported(file, folder / "t.h5", {.top_k = k}), "wide_csv") == whole_lines(file)));
  }
}

TEST_CASE("HarMoEny: every count of the file stands in the trace under its labels") {
  const test::TempDir folder;
  for (const auto& [source, k] : {std::pair{"expert_freq_qwen_policy_datasets.csv.gz", 4},
                                  {"expert_freq_qwen_policy_skew.csv.gz", 4},
                                  {"expert_freq_switch128_datasets.csv.gz", 1},
                                  {"expert_freq_switch128_skew.csv.gz", 1}}) {
    const char* const name = source;
    CAPTURE(name);
    const std::filesystem::path file = kData / "harmoeny" / name;
    const TraceFile trace = imported(file, folder / "t.h5", {.top_k = k});
    const Table labels = trace.table("load_rows");
    ByteInput input(file);
    CsvReader rows(input);
    std::int64_t lines = 0, differ = 0;
    std::vector<double> counts(trace.load_row_size());
    std::vector<std::int64_t> tokens(1);
    std::map<std::pair<std::string, std::int64_t>, std::int64_t> row_of;
    for (std::size_t r = 0; r < labels.rows(); ++r) {
      const auto& name_column = std::get<std::vector<std::string>>(labels.columns[0].second);
      row_of[{name_column[r], (*labels.numbers("iteration"))[r]}] = static_cast<std::int64_t>(r);
    }
    while (rows.next()) {
      trace.read_loads<double>(row_of.at({std::string(rows.text(1)), rows.integer(2)}), 1, counts, tokens);
      const auto layer = static_cast<std::size_t>(rows.integer(3)),
                 experts = static_cast<std::size_t>(trace.info().experts);
      for (std::size_t e = 0; e < experts; ++e) {
        differ += counts[layer * experts + e] == rows.number(4 + e) ? 0 : 1;
      }
      ++lines;
    }
    CHECK(differ == 0);
    CHECK(lines == trace.load_rows() * trace.info().layers());
  }
}

TEST_CASE("FLAME and STeP: ids byte for byte") {
  const test::TempDir folder;
  const std::filesystem::path flame = kData / "flame-moe-290m-sample/top6_routing.csv.gz";
  CHECK((exported_again(imported(flame, folder / "t.h5", {.experts = 64}), "token_csv") == whole_lines(flame)));
  for (const auto& [source, experts] : {std::pair{"mixtral_b1024_iter019_layer009.csv", 8},
                                        {"qwen_b64_iter032_layer012.csv", 128},
                                        {"qwen_b1024_iter022_layer016.csv", 128},
                                        {"mixtral_b64_iter008_layer010.csv", 8}}) {
    const char* const name = source;
    CAPTURE(name);
    const std::filesystem::path file = kData / "step-qwen3-mixtral" / name;
    const std::string text = exported_again(imported(file, folder / "t.h5", {.experts = experts}), "token_csv");
    // STeP's files lack the columns token and layer; without them the lines are theirs.
    std::istringstream lines(text);
    std::string joined;
    for (std::string line; std::getline(lines, line);) {
      joined += line.substr(line.find(',', line.find(',') + 1) + 1) + "\n";
    }
    CHECK((joined == whole_lines(file)));
  }
}

TEST_CASE("ExFlow's one-expert routing: byte for byte") {
  const test::TempDir folder;
  const std::filesystem::path file = kData / "harmoeny/exflow_trace_switch128_u8.bin.gz";
  TraceFileWriter writer(folder / "t.h5");
  import_trace(file, "token_binary", {.experts = 128, .top_k = 1, .layers = 6}, writer);
  writer.commit();
  CHECK((exported_again(TraceFile(folder / "t.h5"), "token_binary") == whole_text(file)));
}

}  // namespace
}  // namespace epsim
