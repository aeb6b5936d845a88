#include "sim/scheduler/router.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim/scheduler/engines.h"
#include "tests/support/fakes.h"

namespace epsim {

TEST_CASE("cache_aware: the rank that holds over 30 % of the input, while loads are within 64 requests or 1.5 times") {
  struct Row {
    std::vector<std::pair<std::int64_t, std::int64_t>> choices;  // requests, cached tokens of 1,000
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
    CAPTURE(row.choices[0].first);
    CAPTURE(row.choices[0].second);
    std::vector<RouterChoice> choices;
    for (const auto& [requests, cached] : row.choices) {
      choices.push_back({{.running = requests}, cached});
    }
    CHECK(pick_choice(Router::kCacheAware, choices, 1000) == row.picked);
  }
}

TEST_CASE("even_requests: the fewest input tokens among the ranks that have fewer requests than an even share") {
  struct Row {
    std::vector<RankLoad> loads;
    std::size_t picked;
  };
  const Row rows[] = {
      {{{}, {}}, 0},
      {{{1, 1, 50, 5}, {0, 2, 40, 500}}, 1},               // ceil(5 / 2) = 3: both may; outputs do not count
      {{{0, 3, 10, 3}, {0, 1, 900, 1}}, 1},                // a share of max(ceil(5 / 2), 3) = 3: the first has as many
      {{{0, 2, 90, 2}, {2, 0, 80, 2}, {0, 2, 70, 2}}, 2},  // ceil(7 / 3) = 3
      {{{0, 2, 90, 2}, {0, 1, 90, 2}, {0, 2, 90, 2}}, 1},  // as many tokens: fewer requests
      {{{0, 1, 90, 1}, {0, 0, 0, 0}, {0, 1, 10, 1}}, 1},   // ceil(3 / 3) = 1
  };
  for (const Row& row : rows) {
    CAPTURE(row.loads[0].input_tokens);
    std::vector<RouterChoice> choices;
    for (const RankLoad& load : row.loads) {
      choices.push_back({load});
    }
    CHECK(pick_choice(Router::kEvenRequests, choices, 1) == row.picked);
  }
}

TEST_CASE("random: every rank as often as another, and the same ones under the same seed") {
  const auto pick = [](std::int32_t request) { return pick_random(Seed{1}, "router.ranks", 8, request); };
  std::vector<int> picked(8, 0), with_instance(4, 0), with_decoder(4, 0);
  for (std::int32_t request = 0; request < 8000; ++request) {
    ++picked[pick(request)];
    CHECK(pick(request) == pick(request));
    ++with_instance[2 * pick_random(Seed{1}, "router.instances", 2, request) +
                    pick_random(Seed{1}, "router.ranks", 2, request)];
    ++with_decoder[2 * pick_random(Seed{1}, "router.instances", 2, request) +
                   pick_random(Seed{1}, "router.decoders", 2, request)];
  }
  for (const int times : picked) {
    CHECK(std::abs(times - 1000) < 148);  // deviation sqrt(8000 / 8 x 7 / 8) = 29.6; 5 of them
  }
  for (const int times : with_instance) {  // of two instances of two ranks, all four
    CHECK(std::abs(times - 2000) < 194);   // deviation sqrt(8000 / 4 x 3 / 4) = 38.7
  }
  for (const int times : with_decoder) {  // of two prefill and two decode instances
    CHECK(std::abs(times - 2000) < 194);
  }
}

TEST_CASE("least_requests: of idle ranks the next in turn, as API servers begin to look at different ones") {
  auto records = test::records_of({{0, 6, 3}, {0, 6, 3}, {0, 6, 3}, {0, 6, 3}, {0, 6, 3}});
  ServingOptions options = test::one_rank(10);
  options.router = Router::kLeastRequests;
  options.engine = "vllm_v1";
  options.knobs = VllmKnobs{};
  std::vector<std::unique_ptr<Scheduler>> ranks;
  for (int r = 0; r < 3; ++r) {
    ranks.push_back(make_scheduler(options, {records}));
  }
  RequestRouter router(options);
  CHECK(router.pick(ranks, 0) == 0);
  CHECK(router.pick(ranks, 1) == 1);
  ranks[2]->enqueue(2);
  CHECK(router.pick(ranks, 3) == 0);  // the third has a request
  CHECK(router.pick(ranks, 4) == 0);
}

}  // namespace epsim
