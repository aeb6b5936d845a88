#include "sim/domain/affinity.h"

#include <doctest/doctest.h>

#include "sim/core/check.h"
#include "sim/domain/load_window.h"

using namespace epsim;

TEST_CASE("pairs of experts are counted by layer") {
  // Three tokens of two layers, top-2; layer 0: {0,1} {1,0} {2,3}, layer 1: {3,0} {3,1} {3,2}.
  Affinity a(2, 4);
  a.add_tokens(std::vector<std::uint16_t>{0, 1, 3, 0, 1, 0, 3, 1, 2, 3, 3, 2}, 2);
  const auto row = [&](int l) { return std::vector<double>(a.layer(l).begin(), a.layer(l).end()); };
  CHECK(row(0) == std::vector<double>{0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0});
  CHECK(row(1) == std::vector<double>{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0});
  CHECK(a.at(1, 3, 2) == 1);
}

TEST_CASE("a window without per-token ids has no affinity, and takes none of another shape") {
  LoadWindow w(2, 4);
  CHECK(w.affinity() == nullptr);
  CHECK_THROWS_AS(w.set_affinity(std::make_shared<Affinity>(2, 5)), InvariantBroken);
}

TEST_CASE("pairs of further tokens are added to what there is") {
  Affinity a(2, 4);
  a.add_tokens(std::vector<std::uint16_t>{0, 1, 2, 3, 1, 0, 0, 3}, 2);
  a.add_tokens(std::vector<std::uint16_t>{0, 1, 2, 0}, 2);
  CHECK(a.at(0, 0, 1) == 3);
  CHECK(a.at(1, 2, 3) == 1);
  CHECK(a.at(1, 3, 0) == 1);
  CHECK(a.at(1, 0, 2) == 1);
  CHECK_THROWS_AS(a.add_tokens(std::vector<std::uint16_t>{0, 1}, 2), InvariantBroken);        // half a token
  CHECK_THROWS_AS(a.add_tokens(std::vector<std::uint16_t>{0, 0, 1, 2}, 2), InvariantBroken);  // one expert twice
}

TEST_CASE("some of the tokens are kept, evenly over all") {
  // Three times as many as are kept: every second one after the first kMostKept, every fourth after the next.
  Affinity a(1, 512);
  constexpr std::size_t kAll = 3 * Affinity::kMostKept;
  std::vector<std::uint16_t> ids;
  for (std::size_t t = 0; t < kAll; ++t) {
    ids.push_back(static_cast<std::uint16_t>(t % 256));
    ids.push_back(static_cast<std::uint16_t>(256 + t / 256 % 256));
  }
  CHECK(a.tokens().tokens() == 0);
  a.add_tokens(std::span(ids).first(20), 2);
  CHECK(a.tokens().tokens() == 10);
  CHECK(a.tokens().at(3, 0)[0] == 3);
  a.add_tokens(std::span(ids).subspan(20), 2);
  REQUIRE(a.tokens().tokens() == kAll / 4);
  for (std::size_t t = 0; t < kAll / 4; ++t) {
    REQUIRE(a.tokens().at(t, 0)[0] == 4 * t % 256);
    REQUIRE(a.tokens().at(t, 0)[1] == 256 + 4 * t / 256 % 256);
  }
}
