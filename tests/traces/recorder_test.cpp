// SGLang's expert distribution recorder: .pt files built byte by byte, as torch.save lays them out.
#include <doctest/doctest.h>
#include <zlib.h>

#include <functional>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/format/trace_file.h"
#include "traces/import/importer.h"
#include "traces/import/torch_pickle.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

// Pickle protocol 2 (pickletools.py): one function per kind of value.
std::string integer(std::int64_t x) { return "J" + little(static_cast<std::uint64_t>(x), 4); }
std::string text(const std::string& x) { return "X" + little(x.size(), 4) + x; }
std::string tuple(const std::string& items) { return "(" + items + "t"; }
std::string list(const std::string& items) { return "](" + items + "e"; }
std::string dict(const std::string& keys_and_values) { return "}(" + keys_and_values + "u"; }
std::string global(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string pickle(const std::string& value) { return "\x80\x02" + value + "."; }

std::string whole_tuple(const std::vector<std::int64_t>& values) {
  std::string items;
  for (const std::int64_t x : values) {
    items += integer(x);
  }
  return tuple(items);
}

// torch._utils._rebuild_tensor_v2(storage, offset, shape, stride, requires_grad, OrderedDict()).
struct View {
  std::string type = "IntStorage", key = "0";
  std::int64_t storage_size = 0, offset = 0;
  std::vector<std::int64_t> shape{}, stride{};
};
std::string tensor(const View& v) {
  const std::string storage =
      tuple(text("storage") + global("torch", v.type) + text(v.key) + text("cuda:0") + integer(v.storage_size)) + "Q";
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple(storage + integer(v.offset) + whole_tuple(v.shape) + whole_tuple(v.stride) + "\x89" +
               global("collections", "OrderedDict") + ")R") +
         "R";
}
// A tensor in C order that is all of storage `key`.
std::string whole(const std::string& key, std::vector<std::int64_t> shape, const std::string& type = "IntStorage") {
  View v{
      .type = type, .key = key, .storage_size = 1, .shape = shape, .stride = std::vector<std::int64_t>(shape.size())};
  for (std::size_t d = shape.size(); d-- > 0;) {
    v.stride[d] = v.storage_size;
    v.storage_size *= shape[d];
  }
  return tensor(v);
}

std::string int32s(const std::vector<std::int64_t>& values) {
  std::string out;
  for (const std::int64_t x : values) {
    out += little(static_cast<std::uint64_t>(x), 4);
  }
  return out;
}

// A zip archive of stored entries (PKWARE APPNOTE 4.3); with `zip64`, all sizes and offsets are in Zip64 fields.
std::string zip(const std::vector<std::pair<std::string, std::string>>& entries, bool zip64 = false) {
  std::string out, directory;
  for (const auto& [name, content] : entries) {
    const std::string crc =
        little(crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())), 4);
    const std::uint64_t at = out.size(), size = content.size(), none = 0xffffffff;
    const std::string sizes = little(zip64 ? none : size, 4) + little(zip64 ? none : size, 4);
    const std::string extra =
        zip64 ? little(1, 2) + little(24, 2) + little(size, 8) + little(size, 8) + little(at, 8) : "";
    out += "PK\x03\x04" + little(20, 2) + little(0, 8) + crc + sizes + little(name.size(), 2) + little(0, 2) + name +
           content;
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + little(0, 8) + crc + sizes + little(name.size(), 2) +
                 little(extra.size(), 2) + little(0, 10) + little(zip64 ? none : at, 4) + name + extra;
  }
  const std::uint64_t count = entries.size(), at = out.size();
  out += directory;
  if (zip64) {
    const std::uint64_t record = out.size();
    out += "PK\x06\x06" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) + little(count, 8) +
           little(count, 8) + little(directory.size(), 8) + little(at, 8);
    out += "PK\x06\x07" + little(0, 4) + little(record, 8) + little(1, 4);
  }
  const std::uint64_t small = zip64 ? 0xffff : count;
  return out + "PK\x05\x06" + little(0, 4) + little(small, 2) + little(small, 2) +
         little(zip64 ? 0xffffffff : directory.size(), 4) + little(zip64 ? 0xffffffff : at, 4) + little(0, 2);
}

std::string archive(const std::string& root, const std::vector<std::vector<std::int64_t>>& storages,
                    bool zip64 = false) {
  std::vector<std::pair<std::string, std::string>> entries{{"archive/data.pkl", pickle(root)},
                                                           {"archive/byteorder", "little"}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    entries.emplace_back("archive/data/" + std::to_string(i), int32s(storages[i]));
  }
  entries.emplace_back("archive/version", "3\n");
  return zip(entries, zip64);
}

ImportOptions top2() {
  ImportOptions options;
  options.top_k = 2;
  return options;
}

TraceFile import_dump(const test::TempDir& folder, const std::string& bytes, const ImportOptions& options = top2()) {
  test::write_text(folder / "expert_distribution_recorder_1.pt", bytes);
  TraceFileWriter writer(folder / "t.h5");
  import_trace(folder / "expert_distribution_recorder_1.pt", "auto", options, writer);
  writer.commit();
  return TraceFile(folder / "t.h5");
}
std::string dump_error(const std::string& bytes, const ImportOptions& options = top2()) {
  const test::TempDir folder;
  return message([&] { import_dump(folder, bytes, options); });
}

std::vector<double> row(const TraceFile& trace, std::int64_t r) {
  std::vector<double> counts(trace.load_row_size());
  std::vector<std::int64_t> tokens(1);
  trace.read_loads<double>(r, 1, counts, tokens);
  counts.push_back(static_cast<double>(tokens[0]));
  return counts;
}

std::string stat(const std::string& counts) {
  return dict(text("rank") + integer(0) + text("logical_count") + counts +
              text("average_utilization_rate_over_window") + "N");
}

// Three passes of three layers of four experts: the first layer is dense, the second pass was never filled.
const std::vector<std::int64_t> kPasses = {0, 0, 0, 0, 4, 3, 2, 1, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0,
                                           0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 1, 2, 3};

TEST_CASE("stat: passes of the buffer that hold something, layers that have experts") {
  for (const bool zip64 : {false, true}) {
    const test::TempDir folder;
    const TraceFile trace = import_dump(folder, archive(stat(whole("0", {3, 3, 4})), {kPasses}, zip64));
    CHECK(trace.info().layer_numbers == std::vector<int>{1, 2});
    CHECK(trace.info().experts == 4);
    CHECK(trace.info().model_layers == 3);
    REQUIRE(trace.load_rows() == 2);
    CHECK(row(trace, 0) == std::vector<double>{4, 3, 2, 1, 1, 2, 3, 4, 5});  // 10 assignments of 2: 5 tokens
    CHECK(row(trace, 1) == std::vector<double>{3, 3, 0, 0, 0, 1, 2, 3, 3});
    CHECK(*trace.table("load_rows").numbers("pass") == std::vector<std::int64_t>{0, 2});
  }
}

TEST_CASE("stat: views with strides of their own, and other element types") {
  const test::TempDir folder;
  // The same first pass, kept expert by expert behind an unused element.
  const View turned{.storage_size = 13, .offset = 1, .shape = {3, 4}, .stride = {1, 3}};
  const std::vector<std::int64_t> columns = {99, 0, 4, 1, 0, 3, 2, 0, 2, 3, 0, 1, 4};
  CHECK(row(import_dump(folder, archive(stat(tensor(turned)), {columns})), 0) ==
        std::vector<double>{4, 3, 2, 1, 1, 2, 3, 4, 5});
  std::vector<std::int64_t> wide;  // 64-bit numbers as pairs of 32 bits
  for (std::size_t i = 0; i < 12; ++i) {
    wide.insert(wide.end(), {kPasses[i], 0});
  }
  CHECK(row(import_dump(folder, archive(stat(whole("0", {3, 4}, "LongStorage")), {wide})), 0) ==
        std::vector<double>{4, 3, 2, 1, 1, 2, 3, 4, 5});
}

std::string records(const std::string& items, const std::string& map = whole("1", {3, 5})) {
  return dict(text("records") + list(items) + text("last_physical_to_logical_map") + map);
}
const std::vector<std::int64_t> kMap = {0, 1, 2, 3, 0, 0, 1, 2, 3, 0, 0, 1, 2, 3, 0};  // expert 0 has a second copy

std::string pass(std::int64_t id, const std::string& counts) {
  return dict(text("forward_pass_id") + integer(id) + text("rank") + integer(3) + text("gatherer_key") +
              text("primary") + text("global_physical_count") + counts);
}

TEST_CASE("per_pass: a row per pass, copies added up, idle passes kept") {
  const test::TempDir folder;
  const TraceFile trace = import_dump(
      folder, archive(records(pass(7, whole("0", {3, 5})) + pass(8, whole("2", {3, 5}))),
                      {{0, 0, 0, 0, 0, 2, 3, 2, 1, 2, 1, 1, 3, 4, 1}, kMap, std::vector<std::int64_t>(15)}));
  CHECK(trace.info().layer_numbers == std::vector<int>{1, 2});
  REQUIRE(trace.load_rows() == 2);
  CHECK(row(trace, 0) == std::vector<double>{4, 3, 2, 1, 2, 1, 3, 4, 5});
  CHECK(row(trace, 1) == std::vector<double>(9, 0.0));
  CHECK(*trace.table("load_rows").numbers("forward_pass_id") == std::vector<std::int64_t>{7, 8});
  CHECK(*trace.table("load_rows").numbers("rank") == std::vector<std::int64_t>{3, 3});
}

std::string token_record(const std::string& ids, const std::string& positions, const std::string& lengths) {
  return dict(text("forward_pass_id") + integer(11) + text("rank") + integer(0) + text("positions") + positions +
              text("extend_seq_lens") + lengths + text("forward_mode") + integer(1) + text("topk_ids_of_layer") + ids);
}

// [layer][token][slot]: layer 0 dense, two experts in three slots, the third token fills the batch up.
const std::vector<std::int64_t> kIds = {-1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                        0,  1,  -1, 4,  2,  -1, -1, -1, -1,  //
                                        2,  3,  -1, 1,  0,  -1, -1, -1, -1};

TEST_CASE("per_token: logical experts of every token, requests told apart") {
  const test::TempDir folder;
  const std::string prompt =
      token_record(whole("0", {3, 3, 3}), list(integer(0) + integer(1) + integer(0)), list(integer(2)));
  const std::string answers = token_record(whole("0", {3, 3, 3}), list(integer(2) + integer(5) + integer(0)), "N");
  const TraceFile trace = import_dump(folder, archive(records(prompt + answers), {kIds, kMap}), {});
  CHECK(trace.info().top_k == 2);
  CHECK(trace.info().layer_numbers == std::vector<int>{1, 2});
  TraceFile::Tokens tokens;
  trace.read_tokens(0, trace.token_count(), tokens);
  // Physical 4 is another copy of expert 0.
  CHECK(tokens.experts == std::vector<std::uint16_t>{0, 1, 2, 3, 0, 2, 1, 0, 0, 1, 2, 3, 0, 2, 1, 0});
  CHECK(tokens.sequence == std::vector<std::int32_t>{0, 0, 1, 2});  // a prompt of two, then two requests' next tokens
  CHECK(tokens.position == std::vector<std::int32_t>{0, 1, 2, 5});
  const Table sequences = trace.table("sequences");
  CHECK(*sequences.numbers("num_tokens") == std::vector<std::int64_t>{2, 1, 1});
  CHECK(*sequences.numbers("first_row") == std::vector<std::int64_t>{0, 2, 3});
  CHECK(*sequences.numbers("last_token_pos") == std::vector<std::int64_t>{1, 2, 5});
}

TEST_CASE("pickles that want to run something are refused by name") {
  // os.system("true"), as the classic exploit has it.
  const std::string evil = global("os", "system") + tuple(text("true")) + "R";
  CHECK(contains(dump_error(archive(stat(evil), {})), "the global os.system, which no recording needs"));
  CHECK(contains(dump_error(archive(stat(global("builtins", "eval")), {})), "builtins.eval"));
  CHECK(contains(dump_error(archive(stat(global("torch", "BFloat16Storage")), {})), "torch.BFloat16Storage"));
  CHECK(contains(dump_error(archive("\x8c\x02os\x8c\x06system\x93", {})), "os.system"));  // STACK_GLOBAL
  // BUILD, INST, OBJ, NEWOBJ, LONG4, STRING, EXT1, PERSID
  for (const std::string opcode : {"b", "i", "o", "\x81", "\x8b", "S", "\x82", "P"}) {
    CAPTURE(opcode);
    CHECK(contains(dump_error(archive(opcode, {})), "pickle opcode 0x"));
  }
}

TEST_CASE("damaged pickles: each its own message") {
  const auto error = [](const std::string& value) {
    return message([&] { const TorchPickle p("f.pt:data.pkl", pickle(value)); });
  };
  CHECK(contains(error(""), "stack is empty"));
  CHECK(contains(error("t"), "no mark"));
  CHECK(contains(error("h\x05"), "refers to a value that is not there"));
  CHECK(contains(error("X" + little(100, 4) + "short"), "cut off"));
  CHECK(contains(error("\x8a\x09" + std::string(9, '\x7f')), "more than 64 bits"));
  CHECK(contains(error("Na"), "stack is empty"));
  CHECK(contains(error("NNa"), "no list or dictionary"));
  CHECK(contains(error("}(Nu"), "a key without a value"));
  CHECK(contains(error(text("x") + "Q"), "no storage"));
  CHECK(contains(error("(N)R"), "no known global"));
  CHECK(contains(message([] { const TorchPickle p("f", "\x80\x06N."); }), "protocol above 5"));
  CHECK(contains(message([] { const TorchPickle p("f", "\x80\x02"); }), "cut off"));
  // A list that holds itself, and a billion laughs: each list ten times the one before.
  CHECK(error("]q\x01h\x01\x61").empty());
  std::string laughs = "]q" + std::string(1, '\0');
  for (char i = 1; i < 20; ++i) {
    laughs += "](";
    for (int j = 0; j < 10; ++j) {
      laughs += std::string("h") + static_cast<char>(i - 1);
    }
    laughs += std::string("eq") + i;
  }
  CHECK(error(laughs).empty());
}

TEST_CASE("tensors that contradict their storage, and counts that are none") {
  const auto error = [](const std::string& counts, const std::vector<std::int64_t>& values) {
    return dump_error(archive(stat(counts), {values}));
  };
  const std::vector<std::int64_t> twelve(12, 1);
  CHECK(contains(error(whole("0", {3, 5}), twelve), "shorter than the tensors"));
  CHECK(contains(error(tensor({.storage_size = 12, .offset = 1, .shape = {3, 4}, .stride = {4, 1}}), twelve),
                 "beyond its storage"));
  CHECK(contains(error(tensor({.storage_size = 12, .shape = {1 << 30, 4}, .stride = {0, 0}}), twelve),
                 "beyond its storage"));
  CHECK(contains(error(tensor({.storage_size = 12, .shape = {3, -4}, .stride = {4, 1}}), twelve), "no whole number"));
  CHECK(contains(error(whole("9", {3, 4}), twelve), "storage data/9 of a tensor is missing"));
  CHECK(contains(error(whole("0", {12}), twelve), "[layer][expert]"));
  CHECK(contains(error(whole("0", {3, 4}), std::vector<std::int64_t>(12, 0)), "all counts are zero"));
  CHECK(contains(error(whole("0", {3, 4}), std::vector<std::int64_t>(12, -1)), "is no count"));
  const std::vector<std::int64_t> nan(12, 0x7fc00000);
  CHECK(contains(error(whole("0", {3, 4}, "FloatStorage"), nan), "is no count"));
  const std::vector<std::int64_t> huge(24, 0x7fffffff);
  CHECK(contains(error(whole("0", {3, 4}, "LongStorage"), huge), "above 2^53"));
}

TEST_CASE("records that do not fit together") {
  const auto error = [](const std::string& root, const std::vector<std::int64_t>& ids) {
    return dump_error(archive(root, {ids, kMap}));
  };
  const std::string positions = list(integer(0) + integer(1) + integer(0));
  const auto tokens = [&](const std::string& p, const std::string& lengths) {
    return records(token_record(whole("0", {3, 3, 3}), p, lengths));
  };
  CHECK(contains(error(records(""), kIds), "nothing was recorded"));
  CHECK(contains(error(dict(text("records") + list(pass(1, "N"))), kIds), "no tensor last_physical_to_logical_map"));
  CHECK(contains(error(records(pass(1, "N")), kIds), "no tensor global_physical_count"));
  CHECK(contains(error(records(pass(1, whole("0", {3, 9}))), kIds), "differ in shape"));
  CHECK(contains(error(tokens(list(integer(0)), "N"), kIds), "3 tokens, 1 positions"));
  CHECK(contains(error(tokens(positions, list(integer(4))), kIds), "requests of 4 tokens"));
  CHECK(contains(error(tokens(list(text("a")), "N"), kIds), "whole numbers from 0"));
  std::vector<std::int64_t> wrong = kIds;
  wrong[9] = 5;
  CHECK(contains(error(tokens(positions, "N"), wrong), "expert 5 is no physical expert"));
  wrong[9] = 1;
  CHECK(contains(error(tokens(positions, "N"), wrong), "stands twice in one choice"));
  CHECK(contains(error(dict(text("a") + integer(1)), kIds), "no dump of SGLang's expert distribution recorder"));
}

TEST_CASE("a gzipped dump reads as the dump in it, zeros behind it or not") {
  const test::TempDir folder;
  const std::string plain = archive(stat(whole("0", {3, 3, 4})), {kPasses});
  CHECK(row(import_dump(folder, test::gzipped(plain)), 1) == std::vector<double>{3, 3, 0, 0, 0, 1, 2, 3, 3});
  // Zeros after the archive: what is unpacked is no archive any more, and nothing of it was held in memory.
  CHECK(contains(dump_error(test::gzipped(plain + std::string(std::size_t{32} << 20, '\0'))),
                 "no end of central directory"));
}

TEST_CASE("archives that are cut off, packed or of the other byte order") {
  const std::string whole_file = archive(stat(whole("0", {3, 3, 4})), {kPasses});
  for (std::size_t size = 4; size < whole_file.size(); size += 7) {
    CAPTURE(size);
    CHECK_FALSE(dump_error(whole_file.substr(0, size)).empty());
  }
  CHECK(contains(dump_error(zip({{"a/data.pkl", pickle("N")}, {"a/byteorder", "big"}})), "not little-endian"));
  CHECK(contains(dump_error("PK\x03\x04 data.pkl and nothing more"), "no end of central directory"));
}

}  // namespace
}  // namespace epsim
