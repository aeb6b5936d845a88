#include "sim/domain/affinity.h"

#include <doctest/doctest.h>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "tests/support/errors.h"

using namespace epsim;

namespace {

// Two layers of four experts, top-2.
constexpr RoutingShape kShape{.layers = 2, .experts = 4, .top_k = 2};

template <class Id>
LoadWindow window(std::vector<Id> ids) {
  return window_from_routing<Id>(ids, kShape, "ids.bin");
}

}  // namespace

TEST_CASE("a window from expert ids counts loads and pairs") {
  // Three tokens; layer 0: {0,1} {1,0} {2,3}, layer 1: {3,0} {3,1} {3,2}.
  const LoadWindow w = window<std::uint8_t>({0, 1, 3, 0, 1, 0, 3, 1, 2, 3, 3, 2});
  CHECK(std::vector<double>(w.layer(0).begin(), w.layer(0).end()) == std::vector<double>{2, 2, 1, 1});
  CHECK(std::vector<double>(w.layer(1).begin(), w.layer(1).end()) == std::vector<double>{1, 1, 1, 3});
  REQUIRE(w.affinity() != nullptr);
  const Affinity& a = *w.affinity();
  const auto row = [&](int l) { return std::vector<double>(a.layer(l).begin(), a.layer(l).end()); };
  CHECK(row(0) == std::vector<double>{0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0});
  CHECK(row(1) == std::vector<double>{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0});
  CHECK(a.at(1, 3, 2) == 1);
}

TEST_CASE("ids of any width make the same window") {
  const LoadWindow narrow = window<std::uint8_t>({0, 1, 2, 3}), wide = window<std::int32_t>({0, 1, 2, 3});
  CHECK(narrow.layer(1)[3] == 1);
  CHECK(wide.layer(1)[3] == 1);
  CHECK(wide.affinity()->at(0, 0, 1) == 1);
  CHECK(window<std::uint16_t>({0, 1, 2, 3}).affinity()->at(1, 2, 3) == 1);
}

TEST_CASE("ids that are no routing are refused, naming token and layer") {
  const auto problem = [](std::vector<std::int32_t> ids) { return test::error_of<InputError>([&] { window(ids); }); };
  test::check_contains(problem({0, 1, 2}).problem, {"3 expert ids", "2 layers"});
  test::check_contains(problem({0, 1, 2, 3, 0, 1, 2, 4}).problem, {"token 1", "layer 1", "expert 4", "0..3"});
  test::check_contains(problem({0, -1, 2, 3}).problem, {"expert -1"});
  test::check_contains(problem({0, 1, 2, 2}).problem, {"layer 1", "expert 2", "twice"});
  CHECK(problem({0}).place.file == "ids.bin");
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
