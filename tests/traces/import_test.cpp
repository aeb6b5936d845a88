#include <doctest/doctest.h>
#include <zlib.h>

#include <sstream>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/export/exporter.h"
#include "traces/format/trace_file.h"
#include "traces/import/importer.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

// Imports a file of the given name and content; the trace lies beside it.
TraceFile import_text(const test::TempDir& folder, const std::string& name, const std::string& content,
                      const ImportOptions& options = {}, const std::string& format = "auto") {
  test::write_text(folder / name, content);
  TraceFileWriter writer(folder / "t.h5");
  import_trace(folder / name, format, options, writer);
  writer.commit();
  return TraceFile(folder / "t.h5");
}

std::string import_error(const std::string& name, const std::string& content, const ImportOptions& options = {},
                         const std::string& format = "auto") {
  const test::TempDir folder;
  return message([&] { import_text(folder, name, content, options, format); });
}

std::vector<double> row(const TraceFile& trace, std::int64_t r) {
  std::vector<double> counts(trace.load_row_size());
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(trace.sources()));
  trace.read_loads<double>(r, 1, counts, tokens);
  return counts;
}

std::string exported(const TraceFile& trace, const std::string& format) {
  std::ostringstream out;
  export_trace(trace, format, out);
  return out.str();
}

// A .npy file with the given header fields and elements of one byte.
std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header += std::string((64 - (header.size() + 11) % 64) % 64, ' ') + "\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() % 256);
  out += static_cast<char>(header.size() / 256);
  return out + header + data;
}

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
  }
  return out;
}

// A zip archive with one stored entry: its own record, then the directory.
std::string zip_of(const std::string& name, const std::string& data) {
  const std::uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  const std::string common = little(20, 2) + little(0, 8) + little(crc, 4) + little(data.size(), 4) +
                             little(data.size(), 4) + little(name.size(), 2) + little(0, 2);
  const std::string local = "PK\x03\x04" + common + name + data;
  const std::string central = "PK\x01\x02" + little(20, 2) + common + little(0, 10) + little(0, 4) + name;
  return local + central + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) + little(central.size(), 4) +
         little(local.size(), 4) + little(0, 2);
}

TEST_CASE("SGLang by step: one row a step, dense layers left out, and back") {
  const test::TempDir folder;
  const std::string text =
      R"({"logical_count": [[[0.0, 0.0], [3.0, 1.0], [2.0, 2.0]], [[0.0, 0.0], [0.0, 4.0], [1.0, 3.0]]]})";
  const TraceFile trace = import_text(folder, "c.json", text, {.top_k = 2});
  CHECK(trace.load_rows() == 2);
  CHECK(trace.info().layer_numbers == std::vector<int>{1, 2});
  CHECK(trace.info().model_layers == 3);
  CHECK(row(trace, 1) == std::vector<double>{0, 4, 1, 3});
  CHECK(exported(trace, "sglang") == text);
}

TEST_CASE("wide CSV of steps without labels names them, and comes in again as it was") {
  const test::TempDir folder;
  const TraceFile trace =
      import_text(folder, "c.csv", "step,layer,expert,count\n0,4,0,1\n0,4,1,2\n1,4,0,1\n1,4,1,2\n", {.top_k = 1});
  REQUIRE(trace.load_rows() == 2);
  const std::string wide = exported(trace, "wide_csv");
  CHECK(wide == "step,layer,e0,e1\n0,4,1,2\n1,4,1,2\n");
  const TraceFile again = import_text(folder, "again.csv", wide, {.top_k = 1});
  REQUIRE(again.load_rows() == 2);
  CHECK(row(again, 1) == std::vector<double>{1, 2});
}

TEST_CASE("wide CSV: rows by label in the order they appear, layers by number") {
  const test::TempDir folder;
  const std::string text =
      ",set,iteration,layer_idx,0,1,2\n0,a,7,4,1,2,3\n1,b,7,4,4,5,6\n2,a,7,9,3,2,1\n3,b,7,9,0,0,15\n";
  const TraceFile trace = import_text(folder, "c.csv", text, {.top_k = 1});
  CHECK(trace.info().layer_numbers == std::vector<int>{4, 9});
  CHECK(row(trace, 0) == std::vector<double>{1, 2, 3, 3, 2, 1});
  CHECK(row(trace, 1) == std::vector<double>{4, 5, 6, 0, 0, 15});
  CHECK(exported(trace, "wide_csv") ==
        "set,iteration,layer,e0,e1,e2\na,7,4,1,2,3\na,7,9,3,2,1\nb,7,4,4,5,6\nb,7,9,0,0,15\n");
}

TEST_CASE("long CSV: absent counts are zero, sources apart, and back") {
  const test::TempDir folder;
  const std::string text = "step,source,layer,expert,count\n5,0,1,0,2\n5,1,1,3,2\n8,0,1,2,4\n8,1,1,3,1\n";
  const TraceFile trace = import_text(folder, "c.csv", text, {.top_k = 2});
  CHECK(trace.sources() == 2);
  CHECK(row(trace, 0) == std::vector<double>{2, 0, 0, 0, 0, 0, 0, 2});
  CHECK(row(trace, 1) == std::vector<double>{0, 0, 4, 0, 0, 0, 0, 1});
  CHECK(exported(trace, "long_csv") == text);
}

TEST_CASE("token CSV, raw bytes and NumPy give the same tokens") {
  const test::TempDir folder;
  // Two tokens, layers 0 and 1, top-2 of 4: (0 1)(2 3), (3 0)(1 2).
  const ImportOptions four{.experts = 4};
  const std::string csv = "token,layer,e0,e1\n0,0,0,1\n0,1,2,3\n1,0,3,0\n1,1,1,2\n";
  const std::string raw("\0\1\2\3\3\0\1\2", 8);
  CHECK(exported(import_text(folder, "t.csv", csv, four), "token_csv") == csv);
  CHECK(exported(import_text(folder, "ids_T2x2.bin", raw, four), "token_csv") == csv);
  CHECK(exported(import_text(folder, "t.npy", npy("|u1", "(2, 2, 2)", raw), four), "token_csv") == csv);
  std::string wide;
  for (const char id : raw) {
    wide += little(static_cast<unsigned char>(id), 8);
  }
  CHECK(exported(import_text(folder, "t.npy", npy("<i8", "(2, 2, 2)", wide), four), "token_csv") == csv);
  const std::string zipped = zip_of("a.npy", npy("|u1", "(2, 2, 2)", raw));
  CHECK(exported(import_text(folder, "t.npz", zipped, four), "token_csv") == csv);
  CHECK(exported(import_text(folder, "t.npz.gz", test::gzipped(zipped), four), "token_csv") == csv);
  CHECK(exported(import_text(folder, "t.npy.gz", test::gzipped(npy("|u1", "(2, 2, 2)", raw)), four), "token_csv") ==
        csv);
  CHECK(exported(import_text(folder, "t.csv", "e0,e1\n0,1\n3,2\n", four), "token_binary") ==
        std::string("\0\1\3\2", 4));
}

TEST_CASE("TensorRT-LLM: ranks are sources, iterations rows") {
  const test::TempDir folder;
  std::filesystem::create_directory(folder / "stat");
  test::write_text(folder / "stat/meta_info.json", R"({"num_experts": 2, "num_experts_per_token": 1})");
  for (int rank = 0; rank < 2; ++rank) {
    const std::string header = R"({"10_3":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)"
                               R"("11_3":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}})";
    const auto n = static_cast<std::uint64_t>(rank);
    test::write_text(
        folder / ("stat/rank" + std::to_string(rank) + ".safetensors"),
        little(header.size(), 8) + header + little(1 + n, 8) + little(2, 8) + little(3, 8) + little(4 + n, 8));
  }
  TraceFileWriter writer(folder / "t.h5");
  import_trace(folder / "stat", "auto", {}, writer);
  writer.commit();
  const TraceFile trace(folder / "t.h5");
  CHECK(trace.info().top_k == 1);
  CHECK(trace.sources() == 2);
  CHECK(row(trace, 0) == std::vector<double>{1, 2, 2, 2});
  CHECK(row(trace, 1) == std::vector<double>{3, 4, 3, 5});
  CHECK((*trace.table("load_rows").numbers("iteration"))[1] == 11);

  const std::string whole = read_file(folder / "stat/rank1.safetensors");
  for (std::size_t size = 0; size < whole.size(); ++size) {  // cut off anywhere
    CAPTURE(size);
    test::write_text(folder / "stat/rank1.safetensors", whole.substr(0, size));
    TraceFileWriter again(folder / "u.h5");
    CHECK_THROWS_AS(import_trace(folder / "stat", "auto", {}, again), InputError);
  }
}

TEST_CASE("a byte order mark does not hide the format") {
  const test::TempDir folder;
  test::write_text(folder / "w.csv", "\xEF\xBB\xBFlayer,e0,e1\n0,3,1\n");
  TraceFileWriter writer(folder / "w.h5");
  import_trace(folder / "w.csv", "auto", {.top_k = 1}, writer);
  writer.commit();
  CHECK(TraceFile(folder / "w.h5").load_rows() == 1);
}

TEST_CASE("bad recordings end with what is wrong and where") {
  struct Row {
    std::string name, text, part;
    ImportOptions options{};
    std::string format = "auto";
  };
  const ImportOptions four{.experts = 4};
  for (const Row& r : {
           Row{"x.csv", "hello world\n", "no reader recognises this file"},
           Row{"x.csv", "", "no reader recognises this file"},
           Row{"x.csv", "a\n", "unknown format 'pickle'", {}, "pickle"},
           Row{"c.json", R"({"logical_count": [[1, 2]]})", "`top_k`: this format does not say"},
           Row{"c.json", R"({"logical_count": [[0, 0]]})", "all counts of the first step are zero", {.top_k = 1}},
           Row{"c.json", R"({"logical_count": [[[1, 2]], [[1, 2], [3, 4]]]})", "more layer rows", {.top_k = 1}},
           Row{"c.json",
               R"({"logical_count": [[[1, 2]], [[1, 2, 3]]]})",
               "has 3 experts, the first row 2",
               {.top_k = 1}},
           Row{"c.json",
               R"({"logical_count": [[[0, 0], [1, 2]], [[1, 0], [1, 2]]]})",
               "none in the first step",
               {.top_k = 1}},
           Row{"w.csv",
               "layer,e0,e1\n0,1,2\n0,1,2\n",
               "w.csv:3: `layer`: layer 0 occurs twice; rows need a column",
               {.top_k = 1}},
           Row{"w.csv",
               "set,layer,e0,e1\na,0,1,2\na,0,1,2\n",
               "w.csv:3: `layer`: layer 0 occurs twice for the same set.",
               {.top_k = 1}},
           Row{"w.csv", "set,layer,e0,e1\na,0,1,2\nb,1,1,2\n", "'b' has other layers than 'a'", {.top_k = 1}},
           Row{"w.csv", "layer,e0,e1\n0,1,-2\n", "w.csv:2: `e1`: the count -2 is negative", {.top_k = 1}},
           Row{"w.csv", "layer,e0,e1\n0,1,nan\n", "'nan' is not a finite number", {.top_k = 1}},
           Row{"w.csv", "layer,e0,e1\n0,1,1e19\n", "is no count", {.top_k = 1}},
           Row{"w.csv", "layer,e0,e1\n", "holds no counts", {.top_k = 1}},
           Row{"w.csv", "layer,e0,e1\n0,0,0\n1,0,0\n", "w.csv: every count is 0", {.top_k = 1}},
           Row{"w.csv", "layer,e0,e1\n0,1,2\n",
               "`top_k`: this format does not say how many experts a token takes; "
               "state it (--top-k)."},
           Row{"l.csv", "step,layer,expert,count\n1,0,0,0\n", "l.csv: every count is 0", {.top_k = 1}},
           Row{"l.csv", "step,layer,expert,count\n2,0,0,1\n1,0,0,1\n", "ascending order", {.top_k = 1}},
           Row{"l.csv",
               "step,layer,expert,count\n2,0,0,1\n2,0,0,1\n",
               "l.csv:3: `expert`: expert 0 of layer 0 occurs twice in step 2.",
               {.top_k = 1}},
           Row{"l.csv", "step,layer,expert,count\n2,0,70000,1\n", "allowed are 0 to 65535", {.top_k = 1}},
           Row{"t.csv", "e0,e1\n0,1\n", "`experts`: this format does not say"},
           Row{"t.csv", "e0,e1\n0,1\n2,4\n", "t.csv:3: `e1`: expert 4 is not one of 0 to 3.", four},
           Row{"t.csv", "e0,e1\n2,2\n", "expert 2 occurs twice in one layer's choice of 2 experts.", four},
           Row{"t.csv", "e0,e1\n-1,2\n", "expert -1 is not one of 0 to 3.", four},
           Row{"t.csv", "token,layer,e0\n0,0,1\n0,1,1\n1,0,1\n", "ends within a token", four},
           Row{"t.csv", "token,layer,e0\n0,0,1\n0,1,1\n1,1,1\n", "layer 0 of the same token", four},
           Row{"b.bin", "abc", "no reader recognises", four},
           Row{"b.bin", "abc", "`layers`: raw bytes do not say", {.experts = 4, .top_k = 1}, "token_binary"},
           Row{"b_T2x2.bin", std::string("\0\1\2", 3), "the file ends within a token", four},
           Row{"b_T1x2.bin", std::string("\0\1\2\7", 4), "token 1, layer 0: expert 7 is not one of 0 to 3.", four},
           Row{"n.npy", npy("<f8", "(1, 1, 1)", "12345678"), "elements of type '<f8'", four},
           Row{"n.npy", npy("|u1", "(1, 2, 2)", std::string("\0\0\1\2", 4)), "slice them off", four},
           Row{"n.npy", npy("|u1", "(2, 1, 2)", std::string("\0\1\2", 3)), "the file is cut off", four},
           Row{"n.npy", npy("|u1", "(4,)", std::string("\0\1\2\3", 4)), "[token][layer][k]", four},
           Row{"n.npy", npy("|u1", "(9223372036854775807, 9223372036854775807)", "x"), "too large", four},
           Row{"n.npy", std::string("\x93NUMPY\1\0\xff\xff{", 11), "cut off", four},
           Row{"x.pt", "PK\x03\x04....archive/data.pkl", "sglang_recording.py", four},
           Row{"x.pt", "PK\x03\x04....archive/data.pkl", "sglang_recording.py", four, "sglang"},
           Row{"n.npz", "PK\x03\x04 and nothing more", "not a zip archive, or it is damaged or cut off", four},
       }) {
    CAPTURE(r.name);
    CAPTURE(r.text);
    CHECK(contains(import_error(r.name, r.text, r.options, r.format), r.part));
  }
}

TEST_CASE("a folder that is no recording is called one") {
  const test::TempDir folder;
  TraceFileWriter writer(folder / "out.h5");
  CHECK(contains(message([&] { import_trace(folder.path(), "auto", {}, writer); }), "this is a folder, not a file"));
}

TEST_CASE("a gzipped zip archive that is cut off, or damaged, is refused") {
  const ImportOptions four{.experts = 4};
  const std::string zipped = zip_of("a.npy", npy("|u1", "(2, 2, 2)", std::string("\0\1\2\3\3\0\1\2", 8)));
  const std::string whole = test::gzipped(zipped);
  for (std::size_t size = 2; size < whole.size(); size += 5) {
    CAPTURE(size);
    CHECK_FALSE(import_error("n.npz.gz", whole.substr(0, size), four, "numpy").empty());
  }
  CHECK(contains(import_error("n.npz.gz", test::gzipped("no archive"), four, "numpy"), "not a zip archive"));
}

TEST_CASE("a zip archive cut off or changed anywhere is refused or reads the same") {
  const ImportOptions four{.experts = 4};
  const std::string array = npy("|u1", "(2, 2, 2)", std::string("\0\1\2\3\3\0\1\2", 8));
  const std::string whole = zip_of("a.npy", array);
  const std::size_t content = whole.find(array), directory = content + array.size();
  for (std::size_t size = 2; size < directory; ++size) {
    CAPTURE(size);
    CHECK_FALSE(import_error("n.npz", whole.substr(0, size), four).empty());
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    const std::string error = import_error("n.npz", changed, four, "numpy");  // it neither crashes nor hangs
    CHECK((at < content || at >= directory || !error.empty()));               // content has a checksum
  }
}

TEST_CASE("an npz archive with several arrays gives the one of vLLM, or says what it has") {
  const test::TempDir folder;
  const std::string array = npy("|u1", "(1, 2)", std::string("\1\2", 2));
  const auto local = [](const std::string& zip) { return zip.substr(0, zip.find("PK\x01\x02")); };
  const auto two = [&](const std::string& second) { return local(zip_of("a.npy", array)) + zip_of(second, array); };
  CHECK(import_text(folder, "n.npz", two("routed_experts.npy"), {.experts = 4}).token_count() == 1);
  CHECK(contains(import_error("n.npz", two("b.npy"), {.experts = 4}), "the archive has: a.npy, b.npy"));
}

TEST_CASE("a NumPy array takes the table of its sequences when it is named") {
  const test::TempDir folder;
  test::write_text(folder / "s.csv", "first_row,num_tokens,first_token_pos,rank\n0,1,10,3\n1,2,0,4\n");
  const TraceFile trace = import_text(folder, "n.npy", npy("|u1", "(3, 1, 2)", std::string("\0\1\2\3\3\0", 6)),
                                      {.experts = 4, .sequences = folder / "s.csv"});
  TraceFile::Tokens tokens;
  trace.read_tokens(0, 3, tokens);
  CHECK(tokens.sequence == std::vector<std::int32_t>{0, 1, 1});
  CHECK(tokens.position == std::vector<std::int32_t>{10, 0, 1});
  CHECK(*trace.table("sequences").numbers("rank") == std::vector<std::int64_t>{3, 4});
}

TEST_CASE("sequences that do not fit the ids are refused") {
  const test::TempDir folder;
  const std::string raw("\0\1\2\3", 4);
  const auto with = [&](const std::string& table) {
    test::write_text(folder / "sequences.csv", table);
    return message([&] { import_text(folder, "b_T1x2.bin", raw, {.experts = 4}); });
  };
  CHECK(with("first_row,num_tokens,first_token_pos\n0,1,10\n1,1,20\n").empty());
  CHECK(contains(with("first_row,num_tokens\n0,1\n2,1\n"), "without gaps"));
  CHECK(contains(with("first_row,num_tokens\n0,1\n"), "ends before it"));
  CHECK(contains(with("first_row,num_tokens\n0,3\n"), "holds 2 tokens, its table of sequences 3"));
  CHECK(contains(with("first_row,count\n0,3\n"), "first_row and num_tokens"));
  // Without the table these tokens would be of one sequence, and counts have none.
  for (const std::string text : {"token,layer,e0,e1\n0,0,1,2\n", "step,layer,expert,count\n0,0,1,2\n"}) {
    CHECK(contains(import_error("t.csv", text, {.experts = 4, .top_k = 2, .sequences = folder / "sequences.csv"}),
                   "takes no table of sequences; numpy and token_binary do"));
  }
}

}  // namespace
}  // namespace epsim
