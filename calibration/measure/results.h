// Measured points as they are kept: the tables of calibration/points.h, checked and written as the sweep goes on.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "calibration/measure/point.h"
#include "calibration/points.h"

namespace epsim::measure {

class Results {
 public:
  explicit Results(Provenance provenance);
  // What an earlier run left. Throws InputError when a field of its provenance that must agree differs, naming it.
  static Results resume(const Provenance& now, const std::filesystem::path& file);

  // A point that was measured; replaces nothing, so ask has() first. A failure of the same point is forgotten.
  void add(const PlannedPoint& point, const PointResult& result);
  bool has(const PlannedPoint& point) const { return done_.contains(point.key()); }
  bool failed_before(const PlannedPoint& point) const { return failures_.contains(point.key()); }
  void note(const std::string& key, const std::string& text) { notes_[key] = text; }

  std::size_t measured() const { return done_.size(); }
  std::size_t failed() const { return failures_.size(); }
  // key -> reason
  const std::map<std::string, std::string>& failures() const { return failures_; }

  // The file as it is to be written: failures are attributes "failed: KEY" of their operator's table, notes and the
  // range of clocks stand in the provenance.
  PointFile file() const;
  void write(const std::filesystem::path& path) const { write_points(file(), path); }

 private:
  PointTable& table_of(const OpSpec& op);
  void restore(const PointTable& table);

  Provenance provenance_;
  std::vector<PointTable> tables_;
  std::set<std::string> done_;
  std::map<std::string, std::string> failures_, notes_;
};

}  // namespace epsim::measure
