#include "models/compute/attention_reach.h"

#include <algorithm>
#include <cmath>

namespace epsim {
namespace {

// Query-key pairs of the first `tokens` of a sequence, each of which attends to itself and those before it in its
// chunk.
double chunked_pairs(double tokens, double chunk) {
  const double whole = std::floor(tokens / chunk), rest = tokens - whole * chunk;
  return whole * chunk * (chunk + 1) / 2 + rest * (rest + 1) / 2;
}

// Pairs of `fresh` tokens behind `context` others, where a query attends to at most `window` tokens.
double windowed_pairs(double fresh, double context, double window) {
  const double growing = std::clamp(window - context, 0.0, fresh);  // queries that still reach everything
  return growing * context + growing * (growing + 1) / 2 + (fresh - growing) * window;
}

}  // namespace

RankBatch within_reach(const RankBatch& batch, const AttentionLayers& layers) {
  RankBatch out = batch;
  if (layers.reach == AttentionReach::kFull) {
    return out;
  }
  const double window = layers.tokens;
  const bool chunked = layers.reach == AttentionReach::kChunked;
  const double decodes = batch.decode_sequences(), tokens = static_cast<double>(batch.prefill_tokens);
  if (batch.decode_context > decodes * window) {
    out.decode_context = decodes * (chunked ? (window + 1) / 2 : window);
  }
  // s sequences of n new tokens behind c cached ones: N = s n, C = s c, pairs = N C / s + N^2 / (2 s) + N / 2.
  const double beyond = std::max(1.0, batch.prefill_pairs - tokens / 2);
  const double sequences =
      std::clamp(tokens * (batch.prefill_context + tokens / 2) / beyond, 1.0, std::max(1.0, tokens));
  const double fresh = tokens / sequences, context = batch.prefill_context / sequences;
  if (fresh + context > window) {
    const double pairs = chunked ? chunked_pairs(context + fresh, window) - chunked_pairs(context, window)
                                 : windowed_pairs(fresh, context, window);
    out.prefill_pairs = std::min(batch.prefill_pairs, sequences * pairs);
    out.prefill_context = sequences * (chunked ? std::fmod(context, window) : std::min(context, window));
  }
  return out;
}

}  // namespace epsim
