// Text of traces that other programs write with the HDF5 library, in its oldest layout, which is h5py's default.
#include <doctest/doctest.h>
#include <hdf5.h>

#include "tests/support/paths.h"
#include "tests/traces/support.h"
#include "traces/format/trace_file.h"

namespace epsim {
namespace {

// As h5py writes numpy.bytes_ (ASCII of fixed length, padded with zeros) and str (variable length, UTF-8).
hid_t text_type(std::size_t length) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, length);
  length == H5T_VARIABLE ? H5Tset_cset(type, H5T_CSET_UTF8) : H5Tset_strpad(type, H5T_STR_NULLPAD);
  return type;
}

void attribute(hid_t file, const char* name, hid_t type, const void* value) {
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t made = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(made, type, value);
  H5Aclose(made);
  H5Sclose(space);
}

void dataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& shape, const void* values) {
  const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
  H5Dclose(set);
  H5Sclose(space);
}

// Two rows of one layer of two experts, with a label each.
void write_trace(const std::filesystem::path& path, bool variable_attribute, bool variable_column) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t variable = text_type(H5T_VARIABLE), eleven = text_type(11), six = text_type(6);
  const char* format = "epsim-trace";
  attribute(file, "format", variable_attribute ? variable : eleven,
            variable_attribute ? static_cast<const void*>(&format) : format);
  for (const auto& [name, value] : {std::pair<const char*, std::int64_t>{"format_version", 1},
                                    {"model_layers", 3},
                                    {"experts", 2},
                                    {"top_k", 1},
                                    {"shared_experts", 0},
                                    {"layer_numbers", 1}}) {
    attribute(file, name, H5T_NATIVE_INT64, &value);
  }
  for (const char* group : {"loads", "load_rows"}) {
    H5Gclose(H5Gcreate2(file, group, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  const std::uint32_t counts[] = {3, 1, 0, 4};
  const std::int64_t tokens[] = {4, 4};
  dataset(file, "loads/counts", H5T_NATIVE_UINT32, {2, 1, 1, 2}, counts);
  dataset(file, "loads/tokens", H5T_NATIVE_INT64, {2, 1}, tokens);
  const char* labels[] = {"first", "second"};
  const void* fixed = "first\0second";
  dataset(file, "load_rows/label", variable_column ? variable : six, {2}, variable_column ? labels : fixed);
  for (const hid_t type : {variable, eleven, six}) {
    H5Tclose(type);
  }
  H5Fclose(file);
}

TEST_CASE("text of fixed length reads as h5py writes numpy.bytes_") {
  const test::TempDir folder;
  write_trace(folder / "t.h5", false, false);
  const TraceFile trace(folder / "t.h5");
  const auto& columns = trace.table("load_rows").columns;
  REQUIRE(columns.size() == 1);
  CHECK(std::get<std::vector<std::string>>(columns[0].second) == std::vector<std::string>{"first", "second"});
}

TEST_CASE("text of variable length is refused by name, with what to write instead") {
  const test::TempDir folder;
  write_trace(folder / "a.h5", true, false);
  const std::string attribute_error = test::message([&] { TraceFile(folder / "a.h5"); });
  CHECK(test::contains(attribute_error, "a.h5: `format`: text of variable length is not supported"));
  CHECK(test::contains(attribute_error, "numpy.bytes_(text)"));
  write_trace(folder / "c.h5", false, true);
  CHECK(test::contains(test::message([&] { TraceFile(folder / "c.h5").table("load_rows"); }),
                       "load_rows/label`: text of variable length is not supported"));
}

}  // namespace
}  // namespace epsim
