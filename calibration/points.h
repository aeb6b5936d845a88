// Raw points: what was measured, one table per operator, and where. The in-memory form of the HDF5 files that a
// measurement writes and a fit reads (calibration/FORMAT.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace epsim {

inline constexpr std::int64_t kPointFormatVersion = 1;

// The points of one operator ("grouped_gemm", "nccl_all_to_all"). All vectors have one entry per point; `values` has
// one vector per column.
struct PointTable {
  std::string op;
  std::vector<std::string> columns;               // numeric parameters, the unit in the name where there is one
  std::vector<std::vector<double>> values;        // [column][point], finite and not negative
  std::vector<double> time_s;                     // seconds of one execution, positive
  std::vector<double> rel_error;                  // half width of time's 95 % interval, relative; 0 where repeats is 0
  std::vector<std::int64_t> repeats;              // executions behind time_s; 0: the source does not say
  std::map<std::string, std::string> attributes;  // what all points share: dtype, kernel, library version

  std::size_t size() const { return time_s.size(); }
  // Index into `columns`; throws InputError, listing the columns there are, when `name` is none of them.
  std::size_t column(std::string_view name) const;
  const std::vector<double>& values_of(std::string_view name) const { return values[column(name)]; }
  // Appends one point; `parameters` in the order of `columns`.
  void add(std::span<const double> parameters, double time, double relative_error = 0, std::int64_t count = 0);
};

// Where, when and with what points were taken. Empty texts: not known, or it does not apply.
struct Provenance {
  std::string machine;  // the profile's name: "h200"
  std::string gpu;      // as the driver names it: "NVIDIA H200"
  std::string driver, cuda, nccl, cublas;
  std::string git_revision, date, host;
  std::string clocks, throttle, ecc;
  std::string source;  // repository, path and commit of a public table
  std::string licence;
  std::string notes;
};

// Name and member of every text of a Provenance, in the order in which they are written and shown.
struct ProvenanceField {
  std::string_view name;
  std::string Provenance::*text;
};
std::span<const ProvenanceField> provenance_fields();

struct PointFile {
  Provenance provenance;
  std::vector<PointTable> tables;  // at most one per op

  const PointTable* find(std::string_view op) const;  // null when there is none
};

// Throws InputError, naming `file`, operator, column and point, for a table without a name or columns, a column twice
// or with a reserved name, lengths that differ, NaN, infinite or negative numbers, and times that are not positive.
void validate_points(const PointFile& points, const std::string& file);

// Writes under a temporary name and renames. Checks first, as validate_points does; RunFailed when the disk does not
// take it.
void write_points(const PointFile& points, const std::filesystem::path& file);

// Reads and checks. InputError for a file that is no such file, is of another version, or fails validate_points.
PointFile read_points(const std::filesystem::path& file);

// Whether two names are of the same GPU. Case, blanks and vendor do not matter: "NVIDIA H200" is "h200".
bool same_gpu(const std::string& a, const std::string& b);

}  // namespace epsim
