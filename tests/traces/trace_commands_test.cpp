#include "traces/commands/trace_commands.h"

#include <doctest/doctest.h>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

// Three rows, layers 2 and 5, four experts; row r puts 10 + r on expert 1 of layer 2.
void write_rows_file(const std::filesystem::path& file) {
  TraceInfo info;
  info.model = "toy";
  info.layer_numbers = {2, 5};
  info.experts = 4;
  info.top_k = 1;
  TraceFileWriter writer(file);
  writer.begin(info, 1);
  for (int r = 0; r < 3; ++r) {
    writer.loads({std::vector<double>{1, 10.0 + r, 1, 1, 2, 2, 2, 2}, std::vector<std::int64_t>{13 + r}});
  }
  Table labels;
  labels.columns.emplace_back("step", std::vector<std::int64_t>{7, 8, 9});
  writer.table("load_rows", labels);
  writer.commit();
}

TEST_CASE("the summary shows shape, skew and a bar for every layer") {
  const test::TempDir folder;
  write_rows_file(folder / "t.h5");
  const std::string text = trace_summary(TraceFile(folder / "t.h5"), "a title", 64);
  CHECK(text.starts_with("a title\n"));
  CHECK(contains(text, "2 MoE layers (2 to 5), 4 experts, top-1"));
  CHECK(contains(text, "load rows  3 from 1 source ranks"));
  CHECK_FALSE(contains(text, "tokens  "));  // none is recorded by itself
  // Layer 2: 33 of 42 assignments, 33 / 10.5 = 3.143; layer 5 is even. Bars of 40 and 40 / 3.143 = 12 characters.
  CHECK(contains(text, "least 1, median 2.071, mean 2.071, p90 2.929, most 3.143"));
  CHECK(contains(text, "      2        3.14  " + std::string(40, '#') + "\n"));
  CHECK(contains(text, "      5        1.00  " + std::string(12, '#') + "\n"));
}

TEST_CASE("the summary does not round loads that are no whole numbers") {
  const test::TempDir folder;
  test::write_text(folder / "m.csv", "layer,e0,e1\n0,2.5,5.1\n");
  TraceFileWriter writer(folder / "m.h5");
  import_trace(folder / "m.csv", "auto", {.top_k = 1}, writer);
  writer.commit();
  CHECK(contains(trace_summary(TraceFile(folder / "m.h5"), "a title", 64), "assignments 7.6\n"));
}

TEST_CASE("a trace whose counts are all zero has no skew") {
  const test::TempDir folder;
  TraceInfo info;
  info.layer_numbers = {0};
  info.experts = 2;
  info.top_k = 1;
  TraceFileWriter writer(folder / "z.h5");
  writer.begin(info, 1);
  writer.loads({std::vector<double>{0, 0}, std::vector<std::int64_t>{0}});
  writer.commit();
  const std::string text = trace_summary(TraceFile(folder / "z.h5"), "a title", 64);
  CHECK(contains(text, "every count is zero"));
  CHECK_FALSE(contains(text, "max / mean"));
}

TEST_CASE("the heatmap has a cell for every layer and expert") {
  const test::TempDir folder;
  write_rows_file(folder / "t.h5");
  const std::string svg = trace_heatmap_svg(TraceFile(folder / "t.h5"));
  CHECK(contains(svg, "layer 2, expert 1: 3.14 x mean"));
  std::size_t cells = 0;
  for (std::size_t at = svg.find("<rect"); at != std::string::npos; at = svg.find("<rect", at + 1)) {
    ++cells;
  }
  CHECK(cells == 8);
}

TEST_CASE("a slice of rows and layers, with its labels") {
  const test::TempDir folder;
  write_rows_file(folder / "t.h5");
  trace_slice(folder / "t.h5", {.first_row = 1, .rows = 2, .layers = {5}}, folder / "s.h5");
  const TraceFile cut(folder / "s.h5");
  CHECK(cut.load_rows() == 2);
  CHECK(cut.info().layer_numbers == std::vector<int>{5});
  std::vector<double> counts(4);
  std::vector<std::int64_t> tokens(1);
  cut.read_loads<double>(1, 1, counts, tokens);
  CHECK(counts == std::vector<double>{2, 2, 2, 2});
  CHECK(tokens[0] == 15);
  CHECK(*cut.table("load_rows").numbers("step") == std::vector<std::int64_t>{8, 9});
  CHECK(contains(message([&] { trace_slice(folder / "t.h5", {.layers = {3}}, folder / "x.h5"); }),
                 "layer 3 is not in the trace, which has 2, 5"));
  trace_slice(folder / "t.h5", {.layers = {5, 5}}, folder / "twice.h5");  // asked for twice, and there
  CHECK(TraceFile(folder / "twice.h5").info().layer_numbers == std::vector<int>{5});
  CHECK(contains(message([&] { trace_slice(folder / "t.h5", {.first_row = 3}, folder / "x.h5"); }), "nothing is left"));
  CHECK(contains(message([&] { trace_slice(folder / "t.h5", {.rows = 9}, folder / "x.h5"); }),
                 "0:9 is not in the trace, which has 3 load rows"));
  CHECK(contains(message([&] { trace_slice(folder / "t.h5", {.tokens = 1}, folder / "x.h5"); }),
                 "0:1 is not in the trace, which has 0 tokens"));
  CHECK_FALSE(std::filesystem::exists(folder / "x.h5"));
}

TEST_CASE("a slice of tokens keeps sequences in step") {
  const test::TempDir folder;
  test::write_text(folder / "b_T1x2.bin", std::string("\0\1\1\2\2\3\3\0", 8));
  test::write_text(folder / "sequences.csv",
                   "first_row,num_tokens,first_token_pos,last_token_pos\n0,1,5,5\n1,3,10,12\n");
  trace_import(folder / "b_T1x2.bin", "auto", {.experts = 4}, folder / "t.h5");
  trace_slice(folder / "t.h5", {.first_token = 2, .tokens = 1}, folder / "s.h5");
  trace_convert(folder / "s.h5", "token_binary", folder / "s.bin");
  trace_convert(folder / "s.h5", "sequences", folder / "s.csv");
  CHECK(read_file(folder / "s.bin") == "\2\3");
  CHECK(read_file(folder / "s.csv") == "first_row,num_tokens,first_token_pos,last_token_pos\n0,0,5,5\n0,1,11,11\n");
  CHECK(contains(message([&] { trace_slice(folder / "t.h5", {.rows = 1}, folder / "x.h5"); }),
                 "0:1 is not in the trace, which has 0 load rows"));
  TraceFile::Tokens tokens;
  TraceFile(folder / "s.h5").read_tokens(0, 1, tokens);
  CHECK(tokens.sequence[0] == 1);
  CHECK(tokens.position[0] == 11);
}

TEST_CASE("generated tokens keep their sequences through slices and other programs' formats") {
  const test::TempDir folder;
  trace_generate({.model = "olmoe", .tokens = 2500}, folder / "t.h5");
  trace_slice(folder / "t.h5", {.first_token = 1000, .tokens = 1300}, folder / "s.h5");
  trace_convert(folder / "s.h5", "token_binary", folder / "b_T16x8.bin");
  trace_convert(folder / "s.h5", "sequences", folder / "sequences.csv");
  trace_import(folder / "b_T16x8.bin", "auto", {.experts = 64}, folder / "b.h5");
  TraceFile::Tokens sliced, again;
  const TraceFile slice(folder / "s.h5");
  slice.read_tokens(0, 1300, sliced);
  TraceFile(folder / "b.h5").read_tokens(0, 1300, again);
  CHECK(again.experts == sliced.experts);
  CHECK(again.sequence == sliced.sequence);
  // By the tokens themselves.
  std::vector<std::int64_t> counts(slice.table("sequences").rows());
  for (const std::int32_t sequence : sliced.sequence) {
    ++counts[sequence];
  }
  CHECK(*slice.table("sequences").numbers("num_tokens") == counts);
}

TEST_CASE("a conversion that fails leaves no file") {
  const test::TempDir folder;
  write_rows_file(folder / "t.h5");
  CHECK(contains(message([&] { trace_convert(folder / "t.h5", "token_csv", folder / "x.csv"); }), "holds no tokens"));
  CHECK(
      contains(message([&] { trace_convert(folder / "t.h5", "parquet", folder / "x"); }), "unknown format 'parquet'"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

}  // namespace
}  // namespace epsim
