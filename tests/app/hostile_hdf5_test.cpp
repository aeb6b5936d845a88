// HDF5 files whose headers claim what they do not hold: each is refused with exit code 2, the name of the data set, and
// within 256 MiB. A header is a few kilobytes, whatever it claims.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim_within;
using epsim::test::small_scenario;
using epsim::test::TempDir;

namespace {

using Shape = std::vector<hsize_t>;

// A trace of OLMoE's shape, 16 layers and 64 experts unless said otherwise, with attributes and no data yet.
class HostileFile {
 public:
  HostileFile(const std::filesystem::path& file, std::int64_t experts, std::int64_t layers = 16)
      : file_(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    text("format", "epsim-trace");
    number("format_version", {1});
    number("model_layers", {layers});
    number("experts", {experts});
    number("top_k", {8});
    number("shared_experts", {0});
    std::vector<std::int64_t> layer_numbers;
    for (std::int64_t l = 0; l < layers; ++l) {
      layer_numbers.push_back(l);
    }
    number("layer_numbers", layer_numbers);
  }
  ~HostileFile() { H5Fclose(file_); }
  HostileFile(const HostileFile&) = delete;
  HostileFile& operator=(const HostileFile&) = delete;

  // No data is written but, where `packed` is not empty, the first chunk, as these deflated bytes.
  void dataset(const std::string& name, hid_t type, const Shape& shape, const Shape& chunk,
               const std::string& packed = "") {
    const hid_t links = H5Pcreate(H5P_LINK_CREATE), layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    H5Pset_chunk(layout, static_cast<int>(chunk.size()), chunk.data());
    H5Pset_deflate(layout, 1);
    const hid_t space = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
    REQUIRE(space >= 0);
    const hid_t set = H5Dcreate2(file_, name.c_str(), type, space, links, layout, H5P_DEFAULT);
    REQUIRE(set >= 0);
    if (!packed.empty()) {
      const Shape first(shape.size(), 0);
      REQUIRE(H5Dwrite_chunk(set, H5P_DEFAULT, 0, first.data(), packed.size(), packed.data()) >= 0);
    }
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(layout);
    H5Pclose(links);
  }

 private:
  void attribute(const char* name, hid_t type, hid_t space, const void* value) {
    const hid_t made = H5Acreate2(file_, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(H5Awrite(made, type, value) >= 0);
    H5Aclose(made);
    H5Sclose(space);
  }
  void text(const char* name, const std::string& value) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, value.size());
    attribute(name, type, H5Screate(H5S_SCALAR), value.data());
    H5Tclose(type);
  }
  void number(const char* name, const std::vector<std::int64_t>& values) {
    const hsize_t size = values.size();
    attribute(name, H5T_NATIVE_INT64, size == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, nullptr),
              values.data());
  }

  hid_t file_;
};

std::string deflated_zeros(std::size_t bytes) {
  const std::string piece(std::size_t{1} << 20, '\0');
  std::string out(bytes / 200 + 1024, '\0');
  z_stream stream{};
  REQUIRE(deflateInit(&stream, 6) == Z_OK);
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  for (std::size_t done = 0; done < bytes; done += piece.size()) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    REQUIRE(deflate(&stream, done + piece.size() < bytes ? Z_NO_FLUSH : Z_FINISH) >= Z_OK);
  }
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

hid_t half_float() {  // IEEE 754 binary16, as h5py writes numpy.float16
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

void check_refused(const TempDir& dir, const std::string& file, const std::vector<std::string>& mentions) {
  const std::string run = "run " + small_scenario() + " -q -o out --set ";
  const std::string section = file.starts_with("requests") ? "requests" : "loads";
  for (const std::string& arguments :
       {"trace info " + file, run + "'" + section + "={kind: trace_file, path: " + file + "}'"}) {
    CAPTURE(arguments);
    const Outcome outcome = run_epsim_within(dir, arguments);
    CAPTURE(outcome.err.substr(0, 400));
    CHECK(outcome.exit_code == 2);
    CHECK_MESSAGE(outcome.peak_mebibytes < 256, outcome.peak_mebibytes);
    for (const std::string& word : mentions) {
      CHECK_MESSAGE(outcome.err.find(word) != std::string::npos, "the message should mention " << word);
    }
  }
}

}  // namespace

TEST_CASE("HDF5: shapes whose product overflows 64 bits") {
  const TempDir dir;
  {
    HostileFile file(dir / "overflow.h5", 64);
    // 2^31 x 2^31 x 4 is 2^64, which is 0 to a 64-bit product.
    file.dataset("/loads/counts", H5T_STD_U32LE, {3, hsize_t{1} << 31, hsize_t{1} << 31, 4}, {1, 1, 1, 4});
    file.dataset("/loads/tokens", H5T_STD_I64LE, {3, hsize_t{1} << 31}, {1, 1});
  }
  check_refused(dir, "overflow.h5", {"overflow.h5", "/loads/counts", "2^63 or more counts in one row"});
}

TEST_CASE("HDF5: sparse data sets of 2^40 rows") {
  const TempDir dir;
  {
    HostileFile file(dir / "sparse.h5", 64);
    file.dataset("/loads/counts", H5T_STD_U32LE, {hsize_t{1} << 40, 16, 1, 64}, {64, 16, 1, 64});
    file.dataset("/loads/tokens", H5T_STD_I64LE, {hsize_t{1} << 40, 1}, {64, 1});
  }
  check_refused(dir, "sparse.h5", {"/loads/counts", "1099511627776 rows", "holds 0 bytes"});
}

TEST_CASE("HDF5: 10^8 requests without a byte of data") {
  const TempDir dir;
  {
    HostileFile file(dir / "requests.h5", 64);
    for (const char* column : {"/requests/arrival_ps", "/requests/input_tokens", "/requests/output_tokens"}) {
      file.dataset(column, H5T_STD_I64LE, {100000000}, {1 << 16});
    }
  }
  check_refused(dir, "requests.h5", {"/requests/arrival_ps", "100000000 rows", "holds 0 bytes"});
}

TEST_CASE("HDF5: half floats of 16,384 columns in one chunk of 512 MiB, half a megabyte on the disk") {
  const TempDir dir;
  constexpr hsize_t kColumns = 16384, kRows = (hsize_t{512} << 20) / 2 / kColumns;
  {
    HostileFile file(dir / "half.h5", kColumns, 1);
    const hid_t type = half_float();
    file.dataset("/loads/counts", type, {kRows, 1, 1, kColumns}, {kRows, 1, 1, kColumns},
                 deflated_zeros(std::size_t{512} << 20));
    H5Tclose(type);
    file.dataset("/loads/tokens", H5T_STD_I64LE, {kRows, 1}, {kRows, 1});
  }
  check_refused(dir, "half.h5", {"/loads/counts", "536870912 bytes in a chunk", "134217728"});
}

TEST_CASE("HDF5: a chunk that claims 4 GiB of a file of kilobytes") {
  const TempDir dir;
  {
    HostileFile file(dir / "chunk.h5", 64);
    file.dataset("/loads/counts", H5T_STD_U32LE, {1, 16, 1, 64}, {1, 16, 1, 64}, deflated_zeros(1 << 20).substr(0, 64));
    file.dataset("/loads/tokens", H5T_STD_I64LE, {1, 1}, {1, 1});
  }
  std::string bytes = epsim::test::slurp(dir / "chunk.h5");
  // A node of the index of chunks, type 1: the first key's 4 bytes behind a header of 24 are what the chunk takes.
  const std::size_t node = bytes.find(std::string("TREE\1", 5));
  REQUIRE(node != std::string::npos);
  REQUIRE(bytes.substr(node + 24, 4) == std::string("\x40\0\0\0", 4));
  bytes.replace(node + 24, 4, "\xff\xff\xff\xff");
  std::ofstream(dir / "chunk.h5", std::ios::binary) << bytes;
  check_refused(dir, "chunk.h5",
                {"/loads/counts", fmt::format("4294967295 stored bytes of a file of {}", bytes.size())});
}
