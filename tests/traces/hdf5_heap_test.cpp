// Traces whose text is of variable length, as h5py writes it: made with the HDF5 library itself, in its oldest layout,
// which is h5py's default.
#include <doctest/doctest.h>
#include <hdf5.h>

#include "sim/core/files.h"
#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/trace_file.h"

namespace epsim {
namespace {

// As h5py writes str: variable length, UTF-8.
hid_t text_type() {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

void text_attribute(hid_t file, const char* name, const char* value) {
  const hid_t type = text_type(), space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, type, &value);
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

void number_attribute(hid_t file, const char* name, std::int64_t value) {
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t attribute = H5Acreate2(file, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(attribute, H5T_NATIVE_INT64, &value);
  H5Aclose(attribute);
  H5Sclose(space);
}

void dataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape, const void* values,
             bool chunked = false) {
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
  if (chunked) {
    H5Pset_chunk(layout, static_cast<int>(shape.size()), shape.data());
    H5Pset_deflate(layout, 4);
  }
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(set);
  H5Pclose(layout);
  H5Sclose(space);
}

void write_like_h5py(const std::filesystem::path& path) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  text_attribute(file, "format", "epsim-trace");
  text_attribute(file, "model", "m\xc3\xb6 model");
  text_attribute(file, "source", "");
  for (const auto& [name, value] : {std::pair{"format_version", 1},
                                    {"model_layers", 3},
                                    {"experts", 2},
                                    {"top_k", 1},
                                    {"shared_experts", 0},
                                    {"layer_numbers", 1}}) {
    number_attribute(file, name, value);
  }
  for (const char* group : {"loads", "load_rows"}) {
    H5Gclose(H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  const std::uint32_t counts[] = {3, 1, 0, 4};
  const std::int64_t tokens[] = {4, 4};
  dataset(file, "loads/counts", H5T_NATIVE_UINT32, {2, 1, 1, 2}, counts);
  dataset(file, "loads/tokens", H5T_NATIVE_INT64, {2, 1}, tokens);
  const char* labels[] = {"first row", "a second one, with more to say than the first"};
  const hid_t type = text_type();
  dataset(file, "load_rows/label", type, {2}, labels);
  dataset(file, "load_rows/packed", type, {2}, labels, true);
  H5Tclose(type);
  H5Fclose(file);
}

// Everything that text is read for.
std::string all_text(const TraceFile& trace) {
  std::string out = trace.info().model + "|" + trace.info().source;
  for (const auto& [title, column] : trace.table("load_rows").columns) {
    for (const std::string& text : std::get<std::vector<std::string>>(column)) {
      out += "|" + text;
    }
  }
  return out;
}

const std::string kAllText =
    "m\xc3\xb6 model||first row|a second one, with more to say than the first|first row|a second one, with more to say "
    "than the first";

TEST_CASE("text of variable length reads as h5py wrote it, packed or not") {
  const test::TempDir folder;
  write_like_h5py(folder / "t.h5");
  CHECK(all_text(TraceFile(folder / "t.h5")) == kAllText);
}

TEST_CASE("damaged text of variable length is an error or another text, never a crash") {
  const test::TempDir folder;
  write_like_h5py(folder / "t.h5");
  const std::string whole = read_file(folder / "t.h5");
  const std::size_t heap = whole.find("GCOL");
  REQUIRE(heap != std::string::npos);
  const auto damaged = [&](std::size_t at, unsigned char value) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(value);
    test::write_text(folder / "d.h5", bytes);
    return test::message([&] { all_text(TraceFile(folder / "d.h5")); });
  };
  // The heap: 16 bytes (name, version, size), then objects of 16 bytes (number, count, size) and text.
  CHECK(test::contains(damaged(heap, 'X'), "variable length cannot be read"));
  CHECK(test::contains(damaged(heap + 4, 9), "variable length cannot be read"));
  CHECK(test::contains(damaged(heap + 15, 0x7f), "variable length cannot be read"));  // a heap of 2^63 bytes
  CHECK(test::contains(damaged(heap + 16, 77), "variable length cannot be read"));    // object 1 is gone
  CHECK(test::contains(damaged(heap + 31, 0x7f), "variable length cannot be read"));  // its size is 2^63
  CHECK(test::contains(damaged(heap + 24, 3), "variable length cannot be read"));     // shorter than its reference says
  for (std::size_t at = heap; at < std::min(whole.size(), heap + 400); ++at) {
    for (const int value : {0x00, 0x01, 0x7f, 0xff}) {
      damaged(at, static_cast<unsigned char>(value));
    }
  }
  CHECK(damaged(whole.find("first row"), 'F').empty());  // no checksum: another text
}

}  // namespace
}  // namespace epsim
