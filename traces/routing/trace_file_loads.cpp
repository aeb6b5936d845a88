#include "traces/routing/trace_file_loads.h"

#include "traces/routing/replay_load_source.h"

namespace epsim {

namespace {

std::shared_ptr<const LoadRows> open_rows(ConfigReader& in, const MoeSpec& model) {
  const auto file = std::make_shared<const TraceFile>(in.path("path"));
  return load_rows_of(file, model, in.optional("batch_tokens", std::int64_t{256}, Bound::kPositive));
}

}  // namespace

LoadWindow make_trace_window(ConfigReader& in, const MoeSpec& model, Seed) {
  const auto rows = open_rows(in, model);
  return window_of(*rows, in.optional("batches", false));
}

std::unique_ptr<LoadSource> make_trace_replay(ConfigReader& in, const MoeSpec& model, Seed) {
  const auto rows = open_rows(in, model);
  const bool sum = in.choice("sources", {"keep", "sum"}, "keep") == "sum";
  return std::make_unique<ReplayLoadSource>(rows, model.top_k, sum);
}

}  // namespace epsim
