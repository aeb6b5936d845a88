#include "policies/registry.h"

#include <doctest/doctest.h>

#include <set>

#include "tests/policies/support.h"

TEST_CASE("registry: every policy has a name of its own and says what it is") {
  std::set<std::string_view> names;
  for (const epsim::PlacementPolicyEntry& entry : epsim::placement_policies()) {
    CAPTURE(entry.name);
    CHECK(names.insert(entry.name).second);
    CHECK(entry.summary.size() > 20);
    CHECK(entry.summary.back() == '.');
    CHECK(epsim::test::policy(std::string(entry.name)) != nullptr);
  }
}

TEST_CASE("registry: an unknown name lists all, the nearest first") {
  try {
    epsim::test::policy("elpb");
    FAIL("accepted");
  } catch (const epsim::InputError& error) {
    const std::string what = error.what();
    CHECK(what.find("elpb") != std::string::npos);
    for (const epsim::PlacementPolicyEntry& entry : epsim::placement_policies()) {
      CHECK(what.find(entry.name) != std::string::npos);
    }
    CHECK(what.find("eplb") < what.find("contiguous"));
  }
}

TEST_CASE("registry: an option that a policy does not know is refused") {
  CHECK_THROWS_AS(epsim::test::policy("contiguous", "{mode: global}"), epsim::InputError);
}
