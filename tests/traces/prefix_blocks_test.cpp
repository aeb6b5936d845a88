#include "traces/requests/prefix_blocks.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/core/error.h"
#include "traces/requests/read_requests.h"

namespace epsim {
namespace {

// Requests of the given input lengths with the given ids, in blocks of 4 tokens.
RequestTable table_of(const std::vector<std::int32_t>& inputs, const std::vector<std::vector<std::int64_t>>& paths) {
  RequestTable out;
  out.trace.source = "test";
  out.block_tokens = 4;
  out.prefix_start.push_back(0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    out.trace.requests.push_back({Ticks{}, inputs[i], 1});
    out.prefix_blocks.insert(out.prefix_blocks.end(), paths[i].begin(), paths[i].end());
    out.prefix_start.push_back(std::ssize(out.prefix_blocks));
  }
  return out;
}

using Ids = std::vector<std::int32_t>;

Ids ids_of(const PrefixBlocks& blocks, std::size_t request) {
  const auto ids = blocks.of(request);
  return {ids.begin(), ids.end()};
}

}  // namespace

TEST_CASE("prefix ids are numbered in order of appearance, blocks that are not full left out") {
  const PrefixBlocks blocks = chain_prefix_blocks(table_of({10, 8, 3}, {{700, 900, 901}, {700, 5}, {6}}));
  CHECK(blocks.block_tokens == 4);
  CHECK(blocks.distinct == 3);
  CHECK(ids_of(blocks, 0) == Ids{0, 1});  // 10 tokens fill two blocks
  CHECK(ids_of(blocks, 1) == Ids{0, 2});
  CHECK(ids_of(blocks, 2).empty());
}

TEST_CASE("blocks of answers are kept where a table has them, but for an answer's last token") {
  RequestTable table = table_of({10, 10}, {{1, 2, 3, 4}, {1, 2, 3, 4}});
  table.trace.requests[0].output_tokens = 6;                  // 15 tokens in KV memory: three blocks of 4
  table.trace.requests[1].output_tokens = 7;                  // 16
  CHECK(ids_of(chain_prefix_blocks(table), 1) == Ids{0, 1});  // inputs alone
  table.answers = true;
  const PrefixBlocks blocks = chain_prefix_blocks(table);
  CHECK(ids_of(blocks, 0) == Ids{0, 1, 2});
  CHECK(ids_of(blocks, 1) == Ids{0, 1, 2, 3});
}

TEST_CASE("an id that follows another block elsewhere is refused, with the request") {
  for (const auto& paths : std::vector<std::vector<std::vector<std::int64_t>>>{
           {{1, 2}, {3, 2}}, {{1, 2}, {2, 1}}, {{1, 1}, {4, 5}}, {{1, 2}, {1, 1}}}) {
    try {
      chain_prefix_blocks(table_of({8, 8}, paths));
      FAIL("the ids were accepted");
    } catch (const InputError& error) {
      CHECK(error.place.file == "test");
      CHECK(error.problem.find("request ") != std::string::npos);
      CHECK(error.problem.find("prefix block ") != std::string::npos);
    }
  }
}

TEST_CASE("a trace without prefix blocks has none") {
  RequestTable table;
  table.trace.requests.push_back({Ticks{}, 4, 1});
  CHECK_FALSE(chain_prefix_blocks(table).known());
}

TEST_CASE("requests read for a run carry their prefixes") {
  ConfigReader in = Config::from_text(
                        "{kind: sessions, session_rate: 1/s, turns: 4, think_time: 1s, max_context: 4096, "
                        "system_tokens: 64, block_tokens: 16, count: 50, input_tokens: 40, "
                        "output_tokens: 30}",
                        "test")
                        .root();
  const RequestTrace trace = read_requests(in, Seed{1});
  trace.validate();
  REQUIRE(trace.prefixes.known());
  CHECK(trace.prefixes.block_tokens == 16);
  for (std::size_t i = 0; i < trace.requests.size(); ++i) {
    // The answer's last token fills no block.
    REQUIRE(trace.prefixes.of(i).size() == static_cast<std::size_t>((trace.requests[i].input_tokens + 29) / 16));
    CHECK(trace.prefixes.of(i)[3] == trace.prefixes.of(0)[3]);  // the system prompt is everyone's
  }
}

}  // namespace epsim
