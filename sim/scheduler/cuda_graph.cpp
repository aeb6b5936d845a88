#include "sim/scheduler/cuda_graph.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace epsim {
namespace {

std::optional<std::int64_t> captured(std::span<const std::int64_t> sizes, bool pad, std::int64_t tokens) {
  const auto size = std::lower_bound(sizes.begin(), sizes.end(), tokens);
  if (size == sizes.end() || (!pad && *size != tokens)) {
    return std::nullopt;
  }
  return *size;
}

// Tokens that the graph of all ranks is chosen by.
std::int64_t common_tokens(const GraphOptions& options, std::span<const RankBatch> ranks) {
  std::int64_t sum = 0, most = 0;
  for (const RankBatch& r : ranks) {
    sum += r.tokens();
    most = std::max(most, r.tokens());
  }
  return options.size == GraphSize::kSum ? sum : most;
}

bool decode_alike(std::span<const RankBatch> ranks) {
  int queries = 1;
  for (const RankBatch& r : ranks) {
    queries = std::max(queries, r.decode_queries);
  }
  const auto tokens = [queries](const RankBatch& r) { return std::max<std::int64_t>(r.tokens(), queries); };
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](const RankBatch& r) { return tokens(r) == tokens(ranks.front()); });
}

}  // namespace

bool replay_padded(const GraphOptions& options, std::span<RankBatch> ranks) {
  const auto has_prompt = [](const RankBatch& r) { return r.prefill_tokens > 0; };
  if (!options.enabled) {
    return false;
  }
  const bool prompts = std::any_of(ranks.begin(), ranks.end(), has_prompt);
  if (options.alike && !prompts && !decode_alike(ranks)) {
    return false;
  }
  const std::vector<std::int64_t>& of_step = prompts ? options.prompt_sizes : options.sizes;
  const bool pad = prompts || options.pad;
  const std::optional<std::int64_t> size = captured(of_step, pad, common_tokens(options, ranks));
  if (!size) {
    return false;
  }
  for (RankBatch& rank : ranks) {
    rank.padding = *size - rank.tokens();
    rank.decode_tokens += rank.padding;
    rank.masked = options.mask ? rank.padding : 0;
  }
  return true;
}

bool shared_beside(const ServingOptions& options, std::span<const RankBatch> ranks) {
  std::int64_t tokens = 0;
  for (const RankBatch& rank : ranks) {
    if (rank.prefill_tokens > 0) {
      return false;
    }
    tokens = options.shared_stream_by_rank ? std::max(tokens, rank.tokens()) : tokens + rank.tokens();
  }
  return tokens <= options.shared_stream_tokens;
}

Seconds declared_gap(const ServingOptions& options, bool replayed) {
  return options.step_gap + (replayed ? options.gaps.graph : options.gaps.eager);
}

Seconds schedule_gap(const ServingOptions& options) {
  return options.overlap_schedule ? Seconds{} : options.gaps.scheduler;
}

}  // namespace epsim
