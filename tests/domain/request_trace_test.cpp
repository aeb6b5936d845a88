#include "sim/domain/request_trace.h"

#include <doctest/doctest.h>

#include "sim/core/error.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

RequestTrace trace(std::vector<Request> requests) { return {.source = "trace.csv", .requests = std::move(requests)}; }

TEST_CASE("requests in order of time are taken, several at one instant too") {
  CHECK_NOTHROW(trace({{Ticks{0}, 1, 1}, {Ticks{0}, 4096, 256}, {Ticks{5}, 7, 2}}).validate());
}

TEST_CASE("what cannot be served is refused, by its number in the file") {
  struct Row {
    std::vector<Request> requests;
    const char* says;
  };
  const Row rows[] = {
      {{}, "holds no request"},
      {{{Ticks{0}, 1, 1}, {Ticks{1}, 0, 5}}, "request 2: 0 input and 5 output tokens"},
      {{{Ticks{0}, 1, 0}}, "request 1: 1 input and 0 output tokens"},
      {{{Ticks{0}, -4, 1}}, "request 1: -4 input"},
      {{{Ticks{9}, 1, 1}, {Ticks{8}, 1, 1}}, "request 2: it arrives before"},
      {{{Ticks{-1}, 1, 1}}, "request 1: it arrives before the start"},
  };
  for (const Row& row : rows) {
    const InputError e = test::error_of<InputError>([&] { trace(row.requests).validate(); });
    CHECK(e.place.file == "trace.csv");
    test::check_contains(e.what(), {row.says});
  }
}

}  // namespace
namespace {

// Two requests of 10 and 5 tokens, with blocks of 4 tokens.
RequestTrace with_prefixes() {
  RequestTrace trace{"test", {{Ticks{1}, 10, 1}, {Ticks{2}, 5, 1}}};
  trace.prefixes = {4, 2, {0, 2, 3}, {0, 1, 0}};
  return trace;
}

}  // namespace

TEST_CASE("prefix blocks belong to their requests and are filled by them") {
  with_prefixes().validate();
  RequestTrace trace = with_prefixes();
  CHECK(trace.prefixes.of(0).size() == 2);
  CHECK(trace.prefixes.of(1)[0] == 0);
  trace.requests[1].input_tokens = 3;  // does not fill its block
  CHECK_THROWS_AS(trace.validate(), InputError);
  trace = with_prefixes();
  trace.prefixes.start = {0, 2};
  CHECK_THROWS_AS(trace.validate(), InputError);
  trace = with_prefixes();
  trace.prefixes.start = {0, 4, 3};
  CHECK_THROWS_AS(trace.validate(), InputError);
}

TEST_CASE("a selection keeps the prefixes of what it takes") {
  const std::size_t positions[] = {1, 0, 1};
  RequestTrace taken = with_prefixes().select(positions);
  REQUIRE(taken.requests.size() == 3);
  CHECK(taken.requests[0].input_tokens == 5);
  CHECK(taken.prefixes.of(0).size() == 1);
  CHECK(taken.prefixes.of(1).size() == 2);
  CHECK(taken.prefixes.of(2)[0] == 0);
  CHECK_FALSE(RequestTrace{"none", {{Ticks{}, 1, 1}}}.select(std::span(positions).first(0)).prefixes.known());
}

TEST_CASE("where outputs are cut, blocks of answers that they no longer fill go") {
  RequestTrace trace{"test", {{Ticks{1}, 6, 7}, {Ticks{2}, 8, 5}, {Ticks{3}, 3, 1}}};
  trace.prefixes = {4, 5, {0, 3, 6, 6}, {0, 1, 2, 0, 3, 4}};
  trace.validate();
  trace.drop_unfilled_blocks();
  CHECK(trace.prefixes.ids.size() == 6);  // 12, 12 and 3 tokens are in KV memory: nothing to drop
  for (Request& r : trace.requests) {
    r.output_tokens = 1;
  }
  CHECK_THROWS_AS(trace.validate(), InputError);
  trace.drop_unfilled_blocks();  // 6, 8 and 3 tokens
  trace.validate();
  CHECK(trace.prefixes.ids == std::vector<std::int32_t>{0, 0, 3});
  CHECK(trace.prefixes.start == std::vector<std::int64_t>{0, 1, 3, 3});
}

TEST_CASE("a selection keeps the ramp that it takes") {
  RequestTrace trace{"test", {{Ticks{1}, 4, 1}, {Ticks{2}, 4, 1}, {Ticks{3}, 4, 1}, {Ticks{4}, 4, 1}}};
  trace.ramp = 2;
  CHECK(trace.steady() == 2);
  const std::size_t positions[] = {1, 2, 3};
  const RequestTrace taken = trace.select(positions);
  CHECK(taken.ramp == 1);
  CHECK(taken.steady() == 2);
}

}  // namespace epsim
