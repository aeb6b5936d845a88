#include "sim/scheduler/router.h"

#include <doctest/doctest.h>

#include <vector>

namespace epsim {

TEST_CASE("cache_aware: the rank that holds over 30 % of the input, while loads are within 64 requests or 1.5 times") {
  struct Row {
    std::vector<RouterChoice> choices;  // load in requests, cached tokens of 1,000
    std::size_t picked;
  };
  const Row rows[] = {
      {{{9, 0}, {5, 0}, {7, 0}}, 1},        // nothing cached: the least loaded
      {{{5, 0}, {5, 0}}, 0},                // the first of equals
      {{{9, 301}, {5, 0}}, 0},              // 30.1 %
      {{{9, 300}, {5, 0}}, 1},              // 30 % are not over 30 %
      {{{9, 400}, {5, 500}, {1, 450}}, 1},  // the most cached
      {{{64, 900}, {0, 0}}, 0},             // 64 more are in balance, whatever the ratio
      {{{65, 900}, {0, 0}}, 1},             // 65 more, and over 1.5 times
      {{{195, 900}, {130, 0}}, 0},          // 65 more, but 1.5 times
      {{{196, 900}, {130, 0}}, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.choices[0].load);
    CAPTURE(row.choices[0].cached_tokens);
    CHECK(pick_choice(row.choices, 1000) == row.picked);
  }
}

}  // namespace epsim
