#include "traces/expert_loads/trace_file_loads.h"

#include <algorithm>

#include "sim/domain/affinity.h"
#include "traces/expert_loads/replay_load_source.h"

namespace epsim {

namespace {

using File = std::shared_ptr<const TraceFile>;

File open_file(ConfigReader& in) { return std::make_shared<const TraceFile>(in.path("path")); }

std::shared_ptr<const LoadRows> open_rows(const File& file, ConfigReader& in, const MoeSpec& model) {
  return load_rows_of(file, model, in.optional("batch_tokens", std::int64_t{256}, Bound::kPositive));
}

// Which experts the file's tokens use together; null when it has loads alone.
std::shared_ptr<const Affinity> affinity_of(const TraceFile& file) {
  constexpr std::int64_t kBlock = 4096;  // tokens; at 60 layers of top-8 4 MiB
  if (file.token_count() == 0) {
    return nullptr;
  }
  auto out = std::make_shared<Affinity>(file.info().layers(), file.info().experts);
  TraceFile::Tokens tokens;
  for (std::int64_t first = 0; first < file.token_count(); first += kBlock) {
    file.read_tokens(first, std::min(kBlock, file.token_count() - first), tokens);
    out->add_tokens(tokens.experts, file.info().top_k);
  }
  return out;
}

}  // namespace

LoadWindow make_trace_window(ConfigReader& in, const MoeSpec& model, Seed) {
  const File file = open_file(in);
  LoadWindow window = window_of(*open_rows(file, in, model), in.optional("batches", false));
  window.set_affinity(affinity_of(*file));
  return window;
}

std::unique_ptr<ExpertLoadSource> make_trace_replay(ConfigReader& in, const MoeSpec& model, Seed) {
  const auto rows = open_rows(open_file(in), in, model);
  const bool sum = in.choice("sources", {"keep", "sum"}, "keep") == "sum";
  return std::make_unique<ReplayLoadSource>(rows, model.top_k, sum);
}

}  // namespace epsim
