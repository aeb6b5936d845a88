// Loads of every step from the rows of a recorded or generated trace: step s takes row s modulo the number of rows.
//
//   Models : the trace's own variation, skew and bursts, row by row and, where it has them, source rank by source rank.
//   Ignores: that a run's step may bring other numbers of tokens than the row had: the row's mix is kept, its noise is
//            the row's.
//   Cost   : one copy per step; the file is read ahead in blocks of about 4 MiB, of which 64 MiB stay in memory.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sim/domain/load_window.h"
#include "sim/domain/moe_spec.h"
#include "sim/domain/step_loads.h"
#include "traces/format/trace_file.h"

namespace epsim {

// Rows to replay, whatever they come from.
class LoadRows {
 public:
  virtual ~LoadRows() = default;
  virtual const std::string& name() const = 0;
  virtual std::int64_t rows() const = 0;
  virtual int layers() const = 0;
  virtual int sources() const = 0;
  virtual int experts() const = 0;
  // [row][layer][source][expert]; safe to call from several threads.
  virtual void read(std::int64_t first, std::int64_t count, std::span<float> out) const = 0;
};

// The load rows of a file; of a file with tokens alone, the loads of every `batch_tokens` consecutive ones (the last,
// smaller batch is left out unless it is the only one). Throws InputError unless layers, experts and top-k are the
// model's.
std::shared_ptr<const LoadRows> load_rows_of(std::shared_ptr<const TraceFile> file, const MoeSpec& model,
                                             std::int64_t batch_tokens);

// All rows and sources together, with the rows as batches when `batches` (memory: 4 bytes a count).
LoadWindow window_of(const LoadRows& rows, bool batches);

class ReplayLoadSource final : public ExpertLoadSource {
 public:
  // `sum_sources`: all source ranks of a row are one mix. A layer in which a source has no tokens draws uniformly.
  ReplayLoadSource(std::shared_ptr<const LoadRows> rows, int top_k, bool sum_sources);

  int layers() const override { return rows_->layers(); }
  int experts() const override { return rows_->experts(); }
  // Throws InputError when the trace has several sources and the run another number of DP ranks.
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;

 private:
  using Block = std::vector<float>;  // rows as they are given out: [row][layer][source][expert], summing to top-k
  std::shared_ptr<const Block> block(std::int64_t number) const;
  Block load(std::int64_t number) const;

  std::shared_ptr<const LoadRows> rows_;
  int top_k_;
  bool sum_sources_;
  int sources_;
  std::size_t row_size_;  // of a row given out
  std::int64_t rows_per_block_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, std::shared_ptr<const Block>>> cache_;  // most recently used last
};

}  // namespace epsim
