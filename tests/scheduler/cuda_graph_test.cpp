#include "sim/scheduler/cuda_graph.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace epsim {
namespace {

std::vector<RankBatch> decodes(std::vector<std::int64_t> tokens) {
  std::vector<RankBatch> out(tokens.size());
  for (std::size_t r = 0; r < out.size(); ++r) {
    out[r].decode_tokens = tokens[r];
  }
  return out;
}

GraphOptions graphs(GraphSize size) {
  GraphOptions out;
  out.enabled = true;
  out.size = size;
  out.sizes = {1, 2, 4, 8, 16};
  return out;
}

}  // namespace

TEST_CASE("a replayed step is padded to a captured size, idle ranks too") {
  struct Row {
    GraphSize size;
    std::vector<std::int64_t> tokens, padded;
  };
  for (const Row& row : {Row{GraphSize::kMax, {3, 0, 5}, {8, 8, 8}}, Row{GraphSize::kSum, {3, 0, 6}, {16, 16, 16}}}) {
    std::vector<RankBatch> batches = decodes(row.tokens);
    CHECK(replay_padded(graphs(row.size), batches));
    for (std::size_t r = 0; r < batches.size(); ++r) {
      CHECK(batches[r].tokens() == row.padded[r]);
    }
  }
}

TEST_CASE("masked rows of padding pass through the layers and go to no expert") {
  std::vector<RankBatch> batches = decodes({3, 0, 5});
  GraphOptions masked = graphs(GraphSize::kMax);
  masked.mask = true;
  CHECK(replay_padded(masked, batches));
  const std::int64_t routed[] = {3, 0, 5};
  for (std::size_t r = 0; r < batches.size(); ++r) {
    CHECK(batches[r].tokens() == 8);
    CHECK(batches[r].routed_tokens() == routed[r]);
    CHECK(batches[r].routed_decodes() == routed[r]);
  }
}

TEST_CASE("steps that were not captured run kernel by kernel, unpadded") {
  const auto stays = [](const GraphOptions& options, std::vector<RankBatch> batches) {
    const std::int64_t before = batches[0].tokens();
    return !replay_padded(options, batches) && batches[0].tokens() == before;
  };
  CHECK(stays(graphs(GraphSize::kMax), decodes({17, 1})));
  CHECK(stays(graphs(GraphSize::kSum), decodes({9, 8})));
  GraphOptions exact = graphs(GraphSize::kMax);
  exact.pad = false;
  CHECK(stays(exact, decodes({3, 1})));
  GraphOptions off = graphs(GraphSize::kMax);
  off.enabled = false;
  CHECK(stays(off, decodes({1})));
  std::vector<RankBatch> prompt = decodes({1, 1});
  prompt[1].prefill_tokens = 3;
  CHECK(stays(graphs(GraphSize::kMax), prompt));
  GraphOptions piecewise = graphs(GraphSize::kMax);
  piecewise.prompt_sizes = piecewise.sizes;
  CHECK(replay_padded(piecewise, prompt));
  CHECK(prompt[0].tokens() == 4);
  CHECK(prompt[1].tokens() == 4);
  CHECK(prompt[1].prefill_tokens == 3);
}

TEST_CASE("padding makes no decodes: a step of prompts alone stays one of prompts") {
  GraphOptions piecewise = graphs(GraphSize::kMax);
  piecewise.prompt_sizes = piecewise.sizes;
  for (const auto& [decoding, kind] : {std::pair{std::int64_t{0}, StepKind::kPrefill}, {1, StepKind::kMixed}}) {
    std::vector<RankBatch> batches = decodes({decoding, 0});
    batches[1].prefill_tokens = 3;
    CHECK(replay_padded(piecewise, batches));
    CHECK(batches[0].tokens() == 4);
    CHECK(kind_of(batches) == kind);
  }
}

// TensorRT-LLM: torch_compile_config.capture_num_tokens beside cuda_graph_config.batch_sizes.
// TensorRT-LLM without padding (cuda_graph_runner.py, maybe_get_cuda_graph): an idle rank has a request of its own.
TEST_CASE(
    "graphs of equal batches alone replay where all DP ranks decode as many, an idle one counted as one request") {
  GraphOptions alike = graphs(GraphSize::kMax);
  alike.pad = false;
  alike.alike = true;
  for (const auto& [tokens, replayed] :
       {std::pair{std::vector<std::int64_t>{4, 4}, true}, {{4, 2}, false}, {{1, 0}, true}, {{2, 0}, false}}) {
    std::vector<RankBatch> batches = decodes(tokens);
    CHECK(replay_padded(alike, batches) == replayed);
  }
  std::vector<RankBatch> drafted = decodes({4, 0});
  drafted[0].decode_queries = 4;  // one request and its drafts
  CHECK(replay_padded(alike, drafted));
  CHECK(drafted[1].tokens() == 4);
}

TEST_CASE("steps with prompts have sizes of their own, to which they are padded whatever decodes are") {
  GraphOptions options = graphs(GraphSize::kMax);
  options.pad = false;
  options.prompt_sizes = {128, 256};
  std::vector<RankBatch> batches = decodes({3, 2});
  batches[0].prefill_tokens = 126;
  CHECK(replay_padded(options, batches));  // 129 tokens on the first rank
  CHECK(batches[0].tokens() == 256);
  CHECK(batches[1].tokens() == 256);
  std::vector<RankBatch> long_prompt = decodes({0, 2});
  long_prompt[0].prefill_tokens = 257;
  CHECK_FALSE(replay_padded(options, long_prompt));
}

TEST_CASE("shared experts have a stream of their own in steps of decodes alone, up to so many tokens of all ranks") {
  ServingOptions options;
  options.shared_stream_tokens = 5;
  CHECK(shared_beside(options, decodes({3, 2})));
  CHECK_FALSE(shared_beside(options, decodes({3, 3})));
  options.shared_stream_by_rank = true;
  CHECK(shared_beside(options, decodes({3, 5})));
  CHECK_FALSE(shared_beside(options, decodes({3, 6})));
  std::vector<RankBatch> with_prompt = decodes({1, 0});
  with_prompt[1].prefill_tokens = 1;
  CHECK_FALSE(shared_beside(options, with_prompt));
}

TEST_CASE("declared gaps: by mode, and the schedule's when it is not overlapped") {
  ServingOptions options;
  options.step_gap = 1_ms;
  options.overlap_schedule = true;
  options.gaps = {10_ms, 100_ms, 1_s};
  CHECK(declared_gap(options, true).count() == doctest::Approx(0.011));
  CHECK(declared_gap(options, false).count() == doctest::Approx(0.101));
  CHECK(schedule_gap(options).count() == 0);
  options.overlap_schedule = false;
  CHECK(declared_gap(options, false).count() == doctest::Approx(0.101));
  CHECK(schedule_gap(options).count() == 1);
}

}  // namespace epsim
