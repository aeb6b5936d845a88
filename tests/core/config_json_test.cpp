#include "sim/core/config_json.h"

#include <doctest/doctest.h>

#include "sim/core/error.h"

namespace epsim {

TEST_CASE("YAML as JSON has every scalar as a text") {
  CHECK(yaml_to_json("a: {b: 2.50, c: [x, null]}\nd: \"say \\\"no\\\"\\tnow\"\ne:\n", "x.yaml") ==
        R"({"a": {"b": "2.50", "c": ["x", null]}, "d": "say \"no\"\u0009now", "e": null})");
  CHECK_THROWS_AS(yaml_to_json("a: [\n", "x.yaml"), InputError);
}

}  // namespace epsim
