// Loads of every step from the rows of a recorded or generated trace: step s takes row s modulo the number of rows.
//
//   Models : the trace's own variation, skew and bursts, row by row and, where it has them, source rank by source rank.
//            Of a trace with tokens, a step's are those of its row, and what they send once is counted.
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
  // The tokens of each row, where they are recorded one by one; else 0. read_tokens() gives their experts,
  // [token][layer][k], of the rows one after another.
  virtual std::int64_t tokens_of_row() const { return 0; }
  virtual void read_tokens(std::int64_t /*first*/, std::int64_t /*count*/, std::vector<std::uint16_t>&) const {}
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
  bool recorded() const override { return row_ids_ > 0; }
  std::int64_t replayed_steps() const override { return rows_->rows(); }
  // Throws InputError when the trace has several sources and the run another number of DP ranks.
  void draw(const StepAt& at, std::span<const std::int64_t> tokens, StepLoads& out) const override;

 private:
  struct Block {
    std::vector<float> loads;            // rows as they are given out: [row][layer][source][expert], summing to top-k
    std::vector<std::uint16_t> experts;  // [row][token][layer][k] where tokens are recorded
    std::size_t bytes() const { return loads.size() * sizeof(float) + experts.size() * sizeof(std::uint16_t); }
  };
  std::shared_ptr<const Block> block(std::int64_t number) const;
  Block load(std::int64_t number) const;

  std::shared_ptr<const LoadRows> rows_;
  int top_k_;
  bool sum_sources_;
  int sources_;
  std::size_t row_size_;  // of a row given out
  std::size_t row_ids_;   // of its tokens, where they are recorded
  std::int64_t rows_per_block_;
  mutable std::mutex mutex_;
  mutable std::vector<std::pair<std::int64_t, std::shared_ptr<const Block>>> cache_;  // most recently used last
};

}  // namespace epsim
