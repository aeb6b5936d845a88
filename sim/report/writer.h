// The files of a run and of a comparison, in a folder that the caller keeps hidden until it is complete (OutputFolder).
#pragma once

#include <filesystem>
#include <span>

#include "sim/cluster/run_result.h"
#include "sim/report/comparison.h"
#include "sim/report/json.h"

namespace epsim {

// Writes resolved.yaml, summary.json, requests.csv, layers.csv, links.csv, gpus.csv, memory.csv, layer_gpu.csv
// and layer_steps.csv into `folder`, which exists; the longest has MoE layers x GPUs rows. Equal arguments give equal
// bytes. `summary` is that of the run. Throws RunFailed, naming the file, when the disk does not take it.
void write_run(const std::filesystem::path& folder, const RunResult& run, const RunSummary& summary,
               const RunInfo& info);

// Writes comparison.json and comparison.csv, and with several seeds intervals.csv; changes are against the first
// policy.
void write_comparison(const std::filesystem::path& folder, const Comparison& runs, const RunInfo& info);

// The whole output of `epsim compare`: the files of a comparison, resolved.yaml, and a folder per policy with its run
// under the first seed, whose resolved.yaml names that policy, so that `epsim run` makes the same files of it.
void write_comparison_folder(const std::filesystem::path& folder, std::span<const RunResult> first_seed,
                             const Comparison& runs, const RunInfo& info);

}  // namespace epsim
