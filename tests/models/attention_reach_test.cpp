// Against sums over every query.
#include "models/compute/attention_reach.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace epsim;

namespace {

// Keys that the query at `position` (0-based) attends to, itself included.
double reached(AttentionReach reach, std::int64_t position, std::int64_t tokens) {
  return static_cast<double>(reach == AttentionReach::kChunked ? position % tokens + 1
                                                               : std::min(position + 1, tokens));
}

// `sequences` chunks of `fresh` tokens behind `context` cached ones.
RankBatch prompts(std::int64_t sequences, std::int64_t fresh, std::int64_t context) {
  const auto s = static_cast<double>(sequences), n = static_cast<double>(fresh), c = static_cast<double>(context);
  return {.prefill_tokens = sequences * fresh,
          .prefill_pairs = s * (n * c + n * (n + 1) / 2),
          .prefill_context = s * c,
          .sampled = sequences};
}

}  // namespace

TEST_CASE("prompts: as many query-key pairs as a sum over the queries") {
  for (const AttentionReach reach : {AttentionReach::kSliding, AttentionReach::kChunked, AttentionReach::kSparse}) {
    for (const std::int64_t tokens : {1, 7, 64, 1000}) {
      for (const std::int64_t fresh : {1, 5, 64, 700}) {
        for (const std::int64_t context : {0, 3, 64, 900, 5000}) {
          for (const std::int64_t sequences : {1, 3}) {
            double pairs = 0;
            for (std::int64_t p = context; p < context + fresh; ++p) {
              pairs += reached(reach, p, tokens);
            }
            CAPTURE(tokens);
            CAPTURE(fresh);
            CAPTURE(context);
            const RankBatch all = prompts(sequences, fresh, context);
            const RankBatch out = within_reach(all, {reach, 1, static_cast<int>(tokens)});
            CHECK(out.prefill_pairs == doctest::Approx(static_cast<double>(sequences) * pairs).epsilon(1e-9));
            CHECK(out.prefill_tokens == all.prefill_tokens);
            CHECK(out.prefill_context <= all.prefill_context);
          }
        }
      }
    }
  }
}

TEST_CASE("decodes read what is within reach of them") {
  const RankBatch batch{.decode_tokens = 10, .decode_context = 10 * 3000.0, .sampled = 10};
  const auto context = [&](AttentionReach reach, int tokens) {
    return within_reach(batch, {reach, 1, tokens}).decode_context;
  };
  CHECK(context(AttentionReach::kSliding, 128) == 10 * 128.0);
  CHECK(context(AttentionReach::kSparse, 2048) == 10 * 2048.0);
  CHECK(context(AttentionReach::kSparse, 4096) == 10 * 3000.0);
  // In the middle of a chunk on average: 1, 2, ... 1024 tokens of it, one as likely as another.
  CHECK(context(AttentionReach::kChunked, 1024) == 10 * 1025.0 / 2);
  CHECK(context(AttentionReach::kChunked, 8192) == 10 * 3000.0);
  CHECK(context(AttentionReach::kFull, 0) == 10 * 3000.0);
}
