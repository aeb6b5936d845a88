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
}  // namespace epsim
