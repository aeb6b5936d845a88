// The CSV files of a run. Comma separated, one header line, "\n" line ends, fields quoted only where they must be (RFC
// 4180), decimal point, numbers that read back exactly, an empty cell where a figure is not defined. Equal runs give
// equal bytes. Rows are streamed: memory does not grow with their number. metrics.md defines every column.
#pragma once

#include <iosfwd>

#include "sim/cluster/run_result.h"
#include "sim/report/comparison.h"

namespace epsim {

void write_requests_csv(std::ostream& out, const RunResult& run);      // one row per request, in the trace's order
void write_step_kinds_csv(std::ostream& out, const RunResult& run);    // one row per pool and kind of step
void write_series_csv(std::ostream& out, const RunResult& run);        // one row per stretch of time
void write_layers_csv(std::ostream& out, const RunResult& run);        // one row per MoE layer
void write_links_csv(std::ostream& out, const RunResult& run);         // one row per link and direction
void write_gpus_csv(std::ostream& out, const RunResult& run);          // one row per GPU, over all layers
void write_layer_gpu_csv(std::ostream& out, const RunResult& run);     // one row per MoE layer and GPU
void write_layer_steps_csv(std::ostream& out, const RunResult& run);   // one row per MoE layer and column of steps
void write_memory_csv(std::ostream& out, const RunResult& run);        // one row per GPU and item of its memory
void write_rebalances_csv(std::ostream& out, const RunResult& run);    // one row per plan made during the run
void write_comparison_csv(std::ostream& out, const Comparison& runs);  // one row per policy, best first, and seed
void write_intervals_csv(std::ostream& out, const Comparison& runs);   // one row per policy and figure

}  // namespace epsim
