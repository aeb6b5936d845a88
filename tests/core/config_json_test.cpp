#include "sim/core/config_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/core/error.h"

namespace epsim {

TEST_CASE("YAML as JSON has every scalar as a text") {
  CHECK(yaml_as_json("a: {b: 2.50, c: [x, null]}\nd: \"say \\\"no\\\"\\tnow\"\ne:\n", "x.yaml").dump() ==
        R"({"a":{"b":"2.50","c":["x",null]},"d":"say \"no\"\tnow","e":null})");
  CHECK_THROWS_AS(yaml_as_json("a: [\n", "x.yaml"), InputError);
}

}  // namespace epsim
