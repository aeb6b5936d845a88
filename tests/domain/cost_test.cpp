#include "sim/domain/cost.h"

#include <doctest/doctest.h>

#include "sim/domain/step.h"

namespace epsim {
namespace {

TEST_CASE("a price made of two is as certain as the less certain, and constants taint nothing") {
  const Origin falling[] = {Origin::kMeasured, Origin::kInterpolated, Origin::kExtrapolated, Origin::kSpecSheet};
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      CHECK(weaker(falling[a], falling[b]) == falling[a > b ? a : b]);
    }
    CHECK(weaker(falling[a], Origin::kDeclared) == falling[a]);
    CHECK(weaker(Origin::kDeclared, falling[a]) == falling[a]);
  }
  CHECK(weaker(Origin::kDeclared, Origin::kDeclared) == Origin::kDeclared);
}

TEST_CASE("names stand in the order of their enums") {
  CHECK(kOriginNames[static_cast<std::size_t>(Origin::kMeasured)] == "measured");
  CHECK(kOriginNames[static_cast<std::size_t>(Origin::kDeclared)] == "declared");
  CHECK(kLayerPartNames[static_cast<std::size_t>(LayerPart::kAttention)] == "attention");
  CHECK(kLayerPartNames[static_cast<std::size_t>(LayerPart::kCombine)] == "combine");
  CHECK(kLayerPartNames[static_cast<std::size_t>(LayerPart::kOther)] == "other");
}

}  // namespace
}  // namespace epsim
