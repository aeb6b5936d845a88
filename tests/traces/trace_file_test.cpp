#include "traces/format/trace_file.h"

#include <doctest/doctest.h>

#include <limits>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

TraceInfo small_info() {
  TraceInfo info;
  info.model = "toy";
  info.model_layers = 3;
  info.layer_numbers = {1, 2};
  info.experts = 4;
  info.top_k = 2;
  info.source = "a test";
  info.licence = "CC0";
  return info;
}

// Row r, source s, layer l, expert e holds 1000 r + 100 l + 10 s + e.
std::vector<double> row_counts(int r, int sources) {
  std::vector<double> out;
  for (int l = 0; l < 2; ++l) {
    for (int s = 0; s < sources; ++s) {
      for (int e = 0; e < 4; ++e) {
        out.push_back(1000.0 * r + 100 * l + 10 * s + e);
      }
    }
  }
  return out;
}

void write_loads(const std::filesystem::path& file, int rows, int sources, double scale = 1) {
  TraceFileWriter writer(file);
  writer.begin(small_info(), sources);
  for (int r = 0; r < rows; ++r) {
    std::vector<double> counts = row_counts(r, sources);
    for (double& x : counts) {
      x *= scale;
    }
    writer.loads({counts, std::vector<std::int64_t>(static_cast<std::size_t>(sources), 5 + r)});
  }
  writer.commit();
}

void write_tokens(const std::filesystem::path& file, std::vector<std::uint16_t> ids) {
  TraceFileWriter writer(file);
  writer.begin(small_info(), 1);
  const std::vector<std::int32_t> sequence(ids.size() / 4, 0), position{0, 1};
  const std::vector<float> weights(ids.size(), 0.5F);
  writer.tokens({ids, weights, sequence, position});
  writer.commit();
}

TEST_CASE("load rows come back as they were written, in any block") {
  const test::TempDir folder;
  for (const double scale : {1.0, 1e7, 0.25}) {  // stored as 32-bit and 64-bit whole numbers, and as doubles
    CAPTURE(scale);
    write_loads(folder / "t.h5", 7, 3, scale);
    const TraceFile file(folder / "t.h5");
    CHECK(file.info().model == "toy");
    CHECK(file.info().licence == "CC0");
    CHECK(file.info().layer_numbers == std::vector<int>{1, 2});
    REQUIRE(file.load_rows() == 7);
    CHECK(file.sources() == 3);
    CHECK(file.token_count() == 0);
    std::vector<double> counts(2 * 24);
    std::vector<std::int64_t> tokens(2 * 3);
    file.read_loads<double>(4, 2, counts, tokens);
    CHECK(counts[0] == 4000 * scale);
    CHECK(counts[23] == 4123 * scale);  // layer 1, source 2, expert 3
    CHECK(counts[24] == 5000 * scale);
    CHECK(tokens == std::vector<std::int64_t>{9, 9, 9, 10, 10, 10});
  }
}

TEST_CASE("tokens, tables and requests come back as they were written") {
  const test::TempDir folder;
  {
    TraceFileWriter writer(folder / "t.h5");
    writer.begin(small_info(), 1);
    writer.tokens({std::vector<std::uint16_t>{0, 1, 2, 3, 3, 0, 1, 2},
                   {},
                   std::vector<std::int32_t>{0, 1},
                   std::vector<std::int32_t>{10, 20}});
    Table table;
    table.columns.emplace_back("name", std::vector<std::string>{"b", "", "caf\xc3\xa9"});
    table.columns.emplace_back("first", std::vector<std::int64_t>{3, -1, 1LL << 62});
    writer.table("sequences", table);
    RequestTable requests;
    requests.trace.requests = {{Ticks{0}, 10, 5}, {Ticks{123456789012345}, 20, 6}};
    requests.prefix_start = {0, 2, 3};
    requests.prefix_blocks = {7, 8, 7};
    requests.block_tokens = 512;
    requests.answers = true;
    writer.requests(requests);
    writer.commit();
  }
  const TraceFile file(folder / "t.h5");
  TraceFile::Tokens tokens;
  REQUIRE(file.token_count() == 2);
  file.read_tokens(1, 1, tokens);
  CHECK(tokens.experts == std::vector<std::uint16_t>{3, 0, 1, 2});
  CHECK(tokens.sequence[0] == 1);
  CHECK(tokens.position[0] == 20);
  CHECK(file.tables() == std::vector<std::string>{"sequences"});
  const Table table = file.table("sequences");
  REQUIRE(table.columns.size() == 2);
  CHECK(table.columns[0].first == "name");  // the order is kept
  CHECK(std::get<std::vector<std::string>>(table.columns[0].second)[2] == "caf\xc3\xa9");
  CHECK((*table.numbers("first"))[2] == 1LL << 62);
  REQUIRE(file.has_requests());
  const RequestTable requests = file.requests();
  CHECK(requests.trace.requests[1].arrival == Ticks{123456789012345});
  CHECK(requests.trace.requests[1].output_tokens == 6);
  CHECK(requests.prefix_blocks == std::vector<std::int64_t>{7, 8, 7});
  CHECK(requests.block_tokens == 512);
  CHECK(requests.answers);
}

TEST_CASE("an uncommitted trace leaves nothing behind") {
  const test::TempDir folder;
  {
    TraceFileWriter writer(folder / "t.h5");
    writer.begin(small_info(), 1);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("bad counts and impossible headers are refused when writing") {
  const test::TempDir folder;
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(), 0x1p63}) {
    CAPTURE(bad);
    CHECK(contains(message([&] { write_loads(folder / "t.h5", 2, 1, bad); }), "is no count"));
  }
  struct Row {
    void (*spoil)(TraceInfo&);
    const char* part;
  };
  for (const Row& r :
       {Row{[](TraceInfo& i) { i.experts = 0; }, "0 experts"}, Row{[](TraceInfo& i) { i.top_k = 5; }, "1 to 4"},
        Row{[](TraceInfo& i) { i.layer_numbers = {}; }, "0 MoE layers"},
        Row{[](TraceInfo& i) {
              i.layer_numbers = {2, 1};
            },
            "must ascend"},
        Row{[](TraceInfo& i) {
              i.layer_numbers = {1, 3};
            },
            "must ascend"}}) {
    TraceInfo info = small_info();
    r.spoil(info);
    CHECK(contains(message([&] { TraceFileWriter(folder / "t.h5").begin(info, 1); }), r.part));
  }
}

TEST_CASE("files that are no trace, or a newer one") {
  const test::TempDir folder;
  CHECK(contains(message([&] { TraceFile f(folder / "none.h5"); }), "there is no such file"));
  test::write_text(folder / "garbage.h5", std::string(10000, 'x'));
  CHECK(contains(message([&] { TraceFile f(folder / "garbage.h5"); }), "not an HDF5 file"));
  test::write_text(folder / "empty.h5", "");
  CHECK(contains(message([&] { TraceFile f(folder / "empty.h5"); }), "not an HDF5 file"));
  Hdf5File::create(folder / "other.h5").close();
  CHECK(contains(message([&] { TraceFile f(folder / "other.h5"); }), "this HDF5 file is no trace"));
  {
    Hdf5File newer = Hdf5File::create(folder / "newer.h5");
    const std::int64_t version = kTraceFormatVersion + 1;
    newer.set_text("format", "epsim-trace");
    newer.set_numbers("format_version", {&version, 1});
    newer.close();
  }
  CHECK(contains(message([&] { TraceFile f(folder / "newer.h5"); }), "the file has format 2; this program reads"));
}

// Reads everything that a file offers.
void read_all(const std::filesystem::path& path) {
  const TraceFile file(path);
  struct Nothing final : TraceSink {
    void begin(const TraceInfo&, int) override {}
    void loads(const LoadRow&) override {}
    void tokens(const TokenBlock&) override {}
    void table(const std::string&, const Table&) override {}
  } sink;
  file.copy_to(sink);
}

TEST_CASE("a file cut off at any 4 KiB is refused") {
  const test::TempDir folder;
  write_loads(folder / "t.h5", 2000, 3);
  const std::string whole = read_file(folder / "t.h5");
  REQUIRE(whole.size() > 3 * 4096);
  CHECK_NOTHROW(read_all(folder / "t.h5"));
  for (std::size_t size = 0; size < whole.size(); size += 4096) {
    CAPTURE(size);
    test::write_text(folder / "cut.h5", whole.substr(0, size));
    CHECK_THROWS_AS(read_all(folder / "cut.h5"), InputError);
  }
}

TEST_CASE("a damaged chunk is reported with its dataset") {
  const test::TempDir folder;
  write_loads(folder / "t.h5", 5000, 3);
  std::string bytes = read_file(folder / "t.h5");
  int named = 0;
  for (std::size_t at = 2048; at + 16 < bytes.size(); at += 1024) {  // the deflated counts fill most of the file
    std::string damaged = bytes;
    for (std::size_t i = 0; i < 16; ++i) {
      damaged[at + i] = static_cast<char>(~damaged[at + i]);
    }
    test::write_text(folder / "bad.h5", damaged);
    const std::string what = message([&] { read_all(folder / "bad.h5"); });
    named += contains(what, "`/loads/") && contains(what, "damaged") ? 1 : 0;
  }
  CHECK(named > static_cast<int>(bytes.size() / 1024 / 2));
}

TEST_CASE("wrong routing is refused: ids out of range, an expert twice") {
  const test::TempDir folder;
  write_tokens(folder / "fine.h5", {0, 1, 2, 3, 0, 1, 2, 3});
  CHECK_NOTHROW(read_all(folder / "fine.h5"));
  write_tokens(folder / "range.h5", {0, 1, 2, 3, 0, 1, 2, 4});
  CHECK(contains(message([&] { read_all(folder / "range.h5"); }), "token 1: expert 4 of a model with 4 experts"));
  write_tokens(folder / "twice.h5", {0, 1, 2, 2, 0, 1, 2, 3});
  CHECK(contains(message([&] { read_all(folder / "twice.h5"); }), "token 0: expert 2 occurs twice"));
}

TEST_CASE("contradicting shapes and negative or non-finite counts of files from elsewhere are refused") {
  const test::TempDir folder;
  const auto make = [&](std::vector<std::uint64_t> shape, double value, std::int64_t tokens) {
    Hdf5File f = Hdf5File::create(folder / "t.h5");
    const auto number = [&](const char* name, std::int64_t n) { f.set_numbers(name, {&n, 1}); };
    f.set_text("format", "epsim-trace");
    for (const auto& [name, n] :
         {std::pair{"format_version", 1}, {"model_layers", 3}, {"experts", 4}, {"top_k", 2}, {"shared_experts", 0}}) {
      number(name, n);
    }
    const std::vector<std::int64_t> layers{1, 2};
    f.set_numbers("layer_numbers", layers);
    Hdf5Dataset counts = f.create_dataset("/loads/counts", Hdf5Type::kF64, shape);
    counts.append<double>(std::vector<double>(counts.row_size(), value));
    f.create_dataset("/loads/tokens", Hdf5Type::kI64, {1}).append<std::int64_t>(std::vector<std::int64_t>{tokens});
  };
  make({2, 1, 4}, 1, 1);
  CHECK_NOTHROW(read_all(folder / "t.h5"));
  make({3, 1, 4}, 1, 1);
  CHECK(contains(message([&] { read_all(folder / "t.h5"); }), "is not [row][2 layers][source][4 experts]"));
  make({2, 2, 4}, 1, 1);
  CHECK(contains(message([&] { read_all(folder / "t.h5"); }), "`/loads/tokens`: the shape is not [row][source]"));
  make({2, 1, 4}, -1, 1);
  CHECK(contains(message([&] { read_all(folder / "t.h5"); }), "negative or not finite"));
  make({2, 1, 4}, std::numeric_limits<double>::quiet_NaN(), 1);
  CHECK(contains(message([&] { read_all(folder / "t.h5"); }), "negative or not finite"));
  make({2, 1, 4}, 1, -1);
  CHECK(contains(message([&] { read_all(folder / "t.h5"); }), "negative number of tokens"));
}

}  // namespace
}  // namespace epsim
