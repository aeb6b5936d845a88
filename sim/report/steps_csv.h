// steps.csv: one row per step of a run, written while the run goes on, so that its memory does not grow. metrics.md
// defines the columns.
#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "sim/domain/step_recorder.h"
#include "sim/report/csv_table.h"

namespace epsim {

class StepsCsv final : public StepRecorder {
 public:
  explicit StepsCsv(std::ostream& out);

  void begin_step(const StepStart& start) override;
  void span(const StepSpan& span) override;
  void exchange(const StepExchange& exchange) override;
  void end_step(Ticks length, const StepCost& cost) override;

 private:
  CsvTable csv_;
  // Of the step that is going on.
  StepCost waited_;                                    // before it began
  std::vector<Ticks> computes_;                        // [GPU]
  std::map<std::string, Ticks, std::less<>> awaited_;  // by link
};

}  // namespace epsim
