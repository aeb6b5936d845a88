#include "sim/report/writer.h"

#include <fmt/format.h>

#include <fstream>
#include <vector>

#include "sim/core/config.h"
#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/report/csv.h"

namespace epsim {
namespace {

using CsvWriter = void (*)(std::ostream&, const RunResult&);

template <class Write>
void write_stream(const std::filesystem::path& file, Write write) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  write(out);
  out.close();
  if (!out) {
    throw RunFailed(fmt::format("{}: cannot be written; is the disk full, or the folder read-only?", file.string()));
  }
}

RunInfo info_of_run(RunInfo info, const std::string& label) {
  Config config = Config::from_text(info.resolved_yaml, "resolved.yaml");
  config.set("policy=" + label);
  info.resolved_yaml = config.resolved();
  return info;
}

}  // namespace

void write_run(const std::filesystem::path& folder, const RunResult& run, const RunSummary& summary,
               const RunInfo& info) {
  write_file_atomically(folder / "resolved.yaml", info.resolved_yaml);
  write_file_atomically(folder / "summary.json", summary_json(summary, info));
  const auto csv = [&](const char* name, CsvWriter write) {
    write_stream(folder / name, [&](std::ostream& out) { write(out, run); });
  };
  csv("requests.csv", write_requests_csv);
  csv("step_kinds.csv", write_step_kinds_csv);
  csv("series.csv", write_series_csv);
  csv("layers.csv", write_layers_csv);
  csv("links.csv", write_links_csv);
  csv("gpus.csv", write_gpus_csv);
  csv("memory.csv", write_memory_csv);
  csv("layer_gpu.csv", write_layer_gpu_csv);
  csv("layer_steps.csv", write_layer_steps_csv);
  if (run.rebalance.active) {
    csv("rebalances.csv", write_rebalances_csv);
  }
}

void write_comparison(const std::filesystem::path& folder, const Comparison& runs, const RunInfo& info) {
  write_file_atomically(folder / "comparison.json", comparison_json(runs, info));
  write_stream(folder / "comparison.csv", [&](std::ostream& out) { write_comparison_csv(out, runs); });
  if (runs.seeds.size() > 1) {
    write_stream(folder / "intervals.csv", [&](std::ostream& out) { write_intervals_csv(out, runs); });
  }
}

void write_comparison_folder(const std::filesystem::path& folder, std::span<const RunResult> first_seed,
                             const Comparison& runs, const RunInfo& info) {
  for (std::size_t policy = 0; policy < first_seed.size(); ++policy) {
    const RunResult& run = first_seed[policy];
    std::filesystem::create_directories(folder / run.label);
    write_run(folder / run.label, run, runs.first_seed(policy), info_of_run(info, run.label));
  }
  write_comparison(folder, runs, info);
  write_file_atomically(folder / "resolved.yaml", info.resolved_yaml);
}

}  // namespace epsim
