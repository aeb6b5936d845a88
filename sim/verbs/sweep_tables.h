// The tables of a finished sweep, from the points in its folder, one at a time: memory does not grow with their
// figures.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/job_store.h"
#include "sim/verbs/sweep_point.h"

namespace epsim {

// "results" has a row for every point, the failed ones too; the other tables only those of points that ran.
class SweepTables {
 public:
  // All points are finished.
  SweepTables(const SweepRequest& request, const JobStore& store);

  // Calls `row` with each row of each table: by point, the table's place in layout().
  void each(const std::function<void(std::size_t table, std::vector<Cell> row)>& row) const;
  // The row of "results".
  std::vector<Cell> result_of(std::size_t point) const;
  // Names and columns, without rows; "results" is the first.
  const std::vector<ResultTable>& layout() const { return layout_; }

 private:
  std::vector<std::pair<std::size_t, std::vector<Cell>>> rows_of(const SweepPoint& point) const;

  const SweepRequest& request_;
  const JobStore& store_;
  std::vector<ResultTable> layout_;
};

std::string key_of_point(std::size_t index);
// Throws RunFailed when it is not there.
SweepPoint load_point(const JobStore& store, std::size_t index);

// Writes NAME.csv of each table, and all of them in results.h5; with several seeds the table "intervals" too. Returns
// them with the columns that `shown` names alone (of intervals: rows of such figures); with all, where `shown` is
// empty.
std::vector<ResultTable> write_sweep_tables(const SweepRequest& request, const JobStore& store,
                                            const std::string& manifest, const std::vector<std::string>& shown);

}  // namespace epsim
