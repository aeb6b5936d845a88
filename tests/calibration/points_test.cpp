#include "calibration/points.h"

#include <doctest/doctest.h>

#include <fstream>
#include <limits>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"
#include "traces/format/hdf5_file.h"

namespace epsim {
namespace {

using test::check_contains;
using test::error_of;

PointFile sample() {
  PointFile file;
  file.provenance.machine = "h200";
  file.provenance.gpu = "NVIDIA H200";
  file.provenance.clocks = "1980 MHz, 3201 MHz";
  PointTable gemm{"gemm", {"m", "n", "k"}, {}, {}, {}, {}, {{"dtype", "bf16"}, {"kernel", "cuBLASLt"}}};
  gemm.add(std::vector<double>{16, 4096, 7168}, 21e-6, 0.01, 40);
  gemm.add(std::vector<double>{4096, 4096, 7168}, 290e-6, 0.002, 12);
  PointTable copy{"copy", {"bytes"}, {}, {}, {}, {}, {}};
  copy.add(std::vector<double>{0}, 3e-6);
  file.tables = {gemm, copy};
  return file;
}

void check_same(const PointTable& a, const PointTable& b) {
  CHECK(a.op == b.op);
  CHECK(a.columns == b.columns);
  CHECK(a.values == b.values);
  CHECK(a.time_s == b.time_s);
  CHECK(a.rel_error == b.rel_error);
  CHECK(a.repeats == b.repeats);
  CHECK(a.attributes == b.attributes);
}

TEST_CASE("points survive the file, and so does where they were taken") {
  const test::TempDir folder;
  const auto file = folder / "h200.h5";
  write_points(sample(), file);
  const PointFile back = read_points(file);
  for (const ProvenanceField& field : provenance_fields()) {
    CHECK(back.provenance.*field.text == sample().provenance.*field.text);
  }
  REQUIRE(back.tables.size() == 2);  // by name in the file
  check_same(*back.find("gemm"), sample().tables[0]);
  check_same(*back.find("copy"), sample().tables[1]);
  CHECK(back.find("gemm")->values_of("k")[1] == 7168);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // nothing temporary stays
}

TEST_CASE("equal points are equal bytes") {
  const test::TempDir folder;
  write_points(sample(), folder / "a.h5");
  write_points(sample(), folder / "b.h5");
  CHECK(read_file(folder / "a.h5") == read_file(folder / "b.h5"));
}

TEST_CASE("what a table may not hold is refused before anything is written") {
  const test::TempDir folder;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Row {
    const char* says;
    void (*spoil)(PointFile&, double nan);
  };
  const Row rows[] = {
      {"`gemm/m`: point 1 is nan", [](PointFile& f, double x) { f.tables[0].values[0][1] = x; }},
      {"`gemm/n`: point 0 is -1", [](PointFile& f, double) { f.tables[0].values[1][0] = -1; }},
      {"`gemm/time_s`: point 0 is 0; it must be finite and positive",
       [](PointFile& f, double) { f.tables[0].time_s[0] = 0; }},
      {"`gemm/rel_error`: point 1 is nan", [](PointFile& f, double x) { f.tables[0].rel_error[1] = x; }},
      {"`gemm/k`: has 1 values, where the table has 2 times",
       [](PointFile& f, double) { f.tables[0].values[2].pop_back(); }},
      {"`gemm/repeats`: has 1 values", [](PointFile& f, double) { f.tables[0].repeats.pop_back(); }},
      {"executions is negative", [](PointFile& f, double) { f.tables[0].repeats[0] = -1; }},
      {"has 2 columns of values for 3 names", [](PointFile& f, double) { f.tables[0].values.pop_back(); }},
      {"'m' is a column twice", [](PointFile& f, double) { f.tables[0].columns[2] = "m"; }},
      {"'time_s' is no name for a column: it is reserved",
       [](PointFile& f, double) { f.tables[0].columns[2] = "time_s"; }},
      {"'a/b' is no name", [](PointFile& f, double) { f.tables[0].columns[2] = "a/b"; }},
      {"an operator's name", [](PointFile& f, double) { f.tables[0].op = ""; }},
      {"two tables", [](PointFile& f, double) { f.tables[1].op = "gemm"; }},
      {"at least one column", [](PointFile& f, double) {
         f.tables[1].columns.clear();
         f.tables[1].values.clear();
       }}};
  for (const Row& row : rows) {
    CAPTURE(row.says);
    PointFile points = sample();
    row.spoil(points, nan);
    const auto error = error_of<InputError>([&] { write_points(points, folder / "bad.h5"); });
    CHECK(error.place.file == (folder / "bad.h5").string());
    check_contains(error.what(), {row.says});
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("files that are none, of another version, or lack something") {
  const test::TempDir folder;
  const auto file = folder / "x.h5";
  std::ofstream(file) << "no HDF5";
  check_contains(error_of<InputError>([&] { read_points(file); }).what(), {"x.h5", "not an HDF5 file"});
  const auto made = [&](const char* format, std::int64_t version, const std::string& dataset) {
    Hdf5File out = Hdf5File::create(file);
    out.set_text("format", format);
    out.set_numbers("version", std::span(&version, 1));
    if (!dataset.empty()) {
      const double one = 1;
      out.create_dataset(dataset, Hdf5Type::kF64, {}).append<double>(std::span(&one, 1));
    }
    out.close();
    return std::string(error_of<InputError>([&] { read_points(file); }).what());
  };
  check_contains(made("epsim trace", 1, ""), {"not a file of calibration points", "epsim trace"});
  check_contains(made("epsim calibration points", 7, ""), {"format version 7", "reads version 1"});
  check_contains(made("epsim calibration points", 1, "/gemm/m"), {"gemm", "lacks its dataset 'columns'"});
}

TEST_CASE("a missing column lists those there are") {
  check_contains(error_of<InputError>([] { sample().find("gemm")->column("rows"); }).what(),
                 {"no column 'rows'", "m, n, k"});
}

}  // namespace
}  // namespace epsim
