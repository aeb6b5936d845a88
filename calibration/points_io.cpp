// Points in HDF5 files: one group per operator, one dataset per column, provenance as attributes of the root.
#include <fmt/format.h>

#include <algorithm>

#include "calibration/points.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "traces/format/hdf5_file.h"

namespace epsim {
namespace {

constexpr const char* kFormatName = "epsim calibration points";
constexpr std::uint64_t kMaxPoints = std::uint64_t{1} << 24;

void write_table(Hdf5File& file, const PointTable& table) {
  const std::string group = "/" + table.op + "/";
  const auto write = [&](const std::string& name, const std::vector<double>& numbers) {
    file.create_dataset(group + name, Hdf5Type::kF64, {}).append<double>(numbers);
  };
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    write(table.columns[c], table.values[c]);
  }
  write("time_s", table.time_s);
  write("rel_error", table.rel_error);
  file.create_dataset(group + "repeats", Hdf5Type::kI64, {}).append<std::int64_t>(table.repeats);
  file.write_texts(group + "columns", table.columns);
  std::vector<std::string> names, texts;
  for (const auto& [name, text] : table.attributes) {
    names.push_back(name);
    texts.push_back(text);
  }
  file.write_texts(group + "attribute_names", names);
  file.write_texts(group + "attribute_values", texts);
}

void write_all(const PointFile& points, const std::filesystem::path& temporary) {
  Hdf5File out = Hdf5File::create(temporary);
  out.set_text("format", kFormatName);
  out.set_numbers("version", std::span(&kPointFormatVersion, 1));
  for (const ProvenanceField& field : provenance_fields()) {
    out.set_text(std::string(field.name), points.provenance.*field.text);
  }
  for (const PointTable& table : points.tables) {
    write_table(out, table);
  }
  out.close();
}

template <class T>
std::vector<T> read_column(const Hdf5File& in, const std::string& name) {
  const Hdf5Dataset set = in.dataset(name, 1);
  if (set.rows() > kMaxPoints) {
    set.fail(fmt::format("this has {} points; at most 2^24 are read.", set.rows()));
  }
  std::vector<T> out(set.rows());
  set.read<T>(0, set.rows(), out);
  return out;
}

PointTable read_table(const Hdf5File& in, const std::string& op) {
  PointTable table;
  table.op = op;
  const std::string group = "/" + op + "/";
  for (const char* needed : {"columns", "attribute_names", "attribute_values"}) {
    refuse_if(!in.has(group + needed), {in.name(), 0, op}, fmt::format("the operator lacks its dataset '{}'.", needed));
  }
  table.columns = in.read_texts(group + "columns");
  for (const std::string& column : table.columns) {
    table.values.push_back(read_column<double>(in, group + column));
  }
  table.time_s = read_column<double>(in, group + "time_s");
  table.rel_error = read_column<double>(in, group + "rel_error");
  table.repeats = read_column<std::int64_t>(in, group + "repeats");
  const std::vector<std::string> names = in.read_texts(group + "attribute_names");
  const std::vector<std::string> texts = in.read_texts(group + "attribute_values");
  refuse_if(names.size() != texts.size(), {in.name(), 0, op}, "its attributes have more names than values, or fewer.");
  for (std::size_t i = 0; i < names.size(); ++i) {
    table.attributes[names[i]] = texts[i];
  }
  return table;
}

}  // namespace

void write_points(const PointFile& points, const std::filesystem::path& file) {
  validate_points(points, file.string());
  AtomicFile whole(file);
  try {
    write_all(points, whole.path());
  } catch (const std::exception& e) {
    throw RunFailed(fmt::format("{}: the points cannot be written: {}", file.string(), e.what()));
  }
  whole.commit();
}

PointFile read_points(const std::filesystem::path& file) {
  const Hdf5File in = Hdf5File::open(file);
  refuse_if(in.text("format") != kFormatName, {in.name(), 0, "format"},
            fmt::format("this is not a file of calibration points: its format is '{}', not '{}'.", in.text("format"),
                        kFormatName));
  const std::vector<std::int64_t> version = in.numbers("version");
  refuse_if(version.size() != 1 || version[0] != kPointFormatVersion, {in.name(), 0, "version"},
            fmt::format("the file has format version {}; this program reads version {}.",
                        version.size() == 1 ? std::to_string(version[0]) : "none", kPointFormatVersion));
  PointFile points;
  for (const ProvenanceField& field : provenance_fields()) {
    points.provenance.*field.text = in.text(std::string(field.name));
  }
  for (const std::string& op : in.members("/")) {
    points.tables.push_back(read_table(in, op));
  }
  validate_points(points, in.name());
  return points;
}

}  // namespace epsim
