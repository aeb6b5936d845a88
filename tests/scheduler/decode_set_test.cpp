#include "sim/scheduler/decode_set.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/rng.h"
#include "tests/support/fakes.h"

namespace epsim {

using test::kMs;

TEST_CASE("two sequences decode together until each has its tokens") {
  DecodeSet set;
  GapSamples gaps;
  std::vector<std::int32_t> finished;
  set.join(7, 100, 2, 1 * kMs);
  set.join(8, 50, 1, 3 * kMs);
  CHECK(set.context() == 150);
  set.advance(5 * kMs, gaps, finished);  // gaps 4 ms and 2 ms; 8 is done
  CHECK(finished == std::vector<std::int32_t>{8});
  CHECK(set.size() == 1);
  CHECK(set.context() == 101);
  set.advance(6 * kMs, gaps, finished);  // gap 1 ms; 7 is done
  CHECK(finished == std::vector<std::int32_t>{8, 7});
  CHECK(set.size() == 0);
  CHECK(set.context() == 0);
  CHECK(gaps.count() == 3);
  CHECK(gaps.summary().mean == doctest::Approx((4 + 2 + 1) / 3.0 * 1e-3));
  CHECK(gaps.summary().max == doctest::Approx(4e-3));
}

TEST_CASE("a sequence with no token to come is refused") {
  DecodeSet set;
  CHECK_THROWS_AS(set.join(0, 10, 0, Ticks{}), InvariantBroken);
}

// The same set, token by token: what the bookkeeping by finishing step must equal.
struct NaiveSequence {
  std::int32_t request;
  std::int64_t context, left;
  Ticks last;
};

TEST_CASE("bookkeeping by last step equals counting token by token") {
  RandomStream random(Seed{11}, "decode");
  DecodeSet set;
  GapSamples gaps;
  std::vector<NaiveSequence> naive;
  std::vector<double> naive_gaps;
  Ticks now{};
  std::int32_t next = 0;
  for (int step = 0; step < 2000; ++step) {
    now += static_cast<std::int64_t>(1 + random.below(3)) * kMs;
    if (random.below(3) == 0) {  // joins come at the end of some steps, decodes at the end of others
      const NaiveSequence s{next++, 1 + static_cast<std::int64_t>(random.below(1000)),
                            1 + static_cast<std::int64_t>(random.below(40)), now};
      set.join(s.request, s.context, s.left, now);
      naive.push_back(s);
      continue;
    }
    std::vector<std::int32_t> finished, expected;
    set.advance(now, gaps, finished);
    for (NaiveSequence& s : naive) {
      naive_gaps.push_back(to_seconds(now - s.last).count());
      s.last = now;
      ++s.context;
      if (--s.left == 0) {
        expected.push_back(s.request);
      }
    }
    std::erase_if(naive, [](const NaiveSequence& s) { return s.left == 0; });
    std::int64_t context = 0;
    for (const NaiveSequence& s : naive) {
      context += s.context;
    }
    REQUIRE(finished == expected);
    REQUIRE(set.context() == context);
    REQUIRE(set.size() == std::ssize(naive));
  }
  const Summary got = gaps.summary();
  const Summary want = summarize(naive_gaps);
  CHECK(got.count == want.count);
  CHECK(got.mean == doctest::Approx(want.mean).epsilon(1e-12));
  CHECK(got.p50 == want.p50);
  CHECK(got.p99 == want.p99);
  CHECK(got.max == want.max);
}

}  // namespace epsim
