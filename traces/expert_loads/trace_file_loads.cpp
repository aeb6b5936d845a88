// Expert loads from a trace in the project's own format (FORMAT.md).
#include <fmt/format.h>

#include <algorithm>

#include "sim/core/limits.h"
#include "sim/core/refuse.h"
#include "sim/domain/affinity.h"
#include "traces/expert_loads/load_sources.h"
#include "traces/expert_loads/replay_load_source.h"

namespace epsim {

namespace {

enum class Sources { kKeep, kSum };

}  // namespace

template <>
inline constexpr auto kNames<Sources> = choice<Sources>({{"keep", Sources::kKeep}, {"sum", Sources::kSum}});

namespace {

constexpr KeyTable kTraceKeys({
    {"path", key::path(), key::kRequired, "The recording."},
    {"batch_tokens", key::whole(Bound::kPositive), key::is(256),
     "Tokens per step where the file has single tokens; those of a last step that is not full are left out."},
    {"batches", key::flag(), key::by("in plan_loads true where a policy that runs uses steps; else false"),
     "Keep the window's steps apart for policies that plan from them (craft, flashlb), not from their sum."},
    {"sources", key::one_of<Sources>(), key::is(Sources::kKeep),
     "Whether to keep what each source GPU sent, or add it up."},
});

using File = std::shared_ptr<const TraceFile>;

File open_file(ConfigReader& in) { return std::make_shared<const TraceFile>(in.path(kTraceKeys["path"])); }

std::shared_ptr<const LoadRows> open_rows(const File& file, ConfigReader& in, const MoeSpec& model) {
  return load_rows_of(file, model, in.read<std::int64_t>(kTraceKeys["batch_tokens"]));
}

// Which experts the file's first `count` tokens use together; null when it has loads alone.
std::shared_ptr<const Affinity> affinity_of(const TraceFile& file, std::int64_t count) {
  constexpr std::int64_t kBlock = 4096;  // tokens; at 60 layers of top-8 4 MiB
  if (count == 0) {
    return nullptr;
  }
  auto out = std::make_shared<Affinity>(file.info().layers(), file.info().experts);
  TraceFile::Tokens tokens;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    file.read_tokens(first, std::min(kBlock, count - first), tokens);
    out->add_tokens(tokens.experts, file.info().top_k);
  }
  return out;
}

// Where the file has tokens, the window also knows which experts serve the same ones: of its loads' steps, or of all
// where the file has loads as well.
LoadWindow make_trace_window(ConfigReader& in, const MoeSpec& model, Seed) {
  const File file = open_file(in);
  const std::shared_ptr<const LoadRows> rows = open_rows(file, in, model);
  const bool batches = in.read<bool>(kTraceKeys["batches"], false);
  if (batches) {
    check_limit(limits::kStepValues, product_of({rows->rows(), rows->layers(), rows->experts()}), in.place("batches"));
  }
  LoadWindow window = window_of(*rows, batches);
  for (int l = 0; l < window.layers(); ++l) {
    refuse_if(!(window.total(l) > 0), {file->name(), 0, ""},
              fmt::format("all rows of layer {} are zero; a MoE layer of {} has loads.",
                          file->info().layer_numbers[static_cast<std::size_t>(l)], model.name));
  }
  const std::int64_t in_steps = rows->rows() * rows->tokens_of_row();
  window.set_affinity(affinity_of(*file, in_steps > 0 ? in_steps : file->token_count()));
  return window;
}

bool has_totals(ConfigReader& in, const MoeSpec& model) {
  const auto rows = open_rows(open_file(in), in, model);
  return rows->rows() == 1 && rows->sources() == 1 && rows->tokens_of_row() == 0;
}

std::unique_ptr<ExpertLoadSource> make_trace_replay(ConfigReader& in, const MoeSpec& model, Seed) {
  const auto rows = open_rows(open_file(in), in, model);
  const bool sum = in.read<Sources>(kTraceKeys["sources"]) == Sources::kSum;
  return std::make_unique<ReplayLoadSource>(rows, model.top_k, sum);
}

}  // namespace

extern const LoadReader kTraceFileLoads{"trace_file",      "a trace in epsim's HDF5 format, replayed step by step",
                                        kTraceKeys,        make_trace_window,
                                        make_trace_replay, has_totals};

}  // namespace epsim
