// Buffers of a fixed size for each expert.
#include "models/step/expert_capacity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace epsim {
namespace {

TEST_CASE("capacity: rows of an expert, as DeepSpeed-MoE has them") {
  const ExpertCapacity deepspeed{1.0, 4};
  CHECK(deepspeed.rows(2304, 8, 64) == 288);  // 2304 x 8 / 64
  CHECK(deepspeed.rows(32, 8, 128) == 4);     // 2, and at least 4
  CHECK(deepspeed.rows(100, 6, 64) == 10);    // 9.375, rounded up
  CHECK(ExpertCapacity{1.25, 4}.rows(2304, 8, 64) == 360);
}

TEST_CASE("capacity: every expert has the same rows, and what is over them is dropped") {
  // Two ranks of 40 and 20 tokens, top-2 of 4 experts, one layer: 20 rows an expert. The first rank's tokens choose expert 0 for
  // 40, expert 1 for 24 and the others for 8 each; the second's choose all for 10.
  StepLoads loads;
  loads.resize(1, 2, 4);
  std::ranges::copy(std::vector<float>{1.0F, 0.6F, 0.2F, 0.2F}, loads.row(0, 0).begin());
  std::ranges::copy(std::vector<float>{0.5F, 0.5F, 0.5F, 0.5F}, loads.row(0, 1).begin());
  PaddedLoads out;
  pad_to_capacity({1.0, 4}, 2, loads, std::vector<std::int64_t>{40, 20}, out);
  CHECK(out.dropped == doctest::Approx(20 + 4));
  CHECK(out.executed_per_layer == doctest::Approx(20 * 4 * 2));
  for (const int expert : {0, 1, 2, 3}) {
    CHECK(out.loads.row(0, 0)[expert] * 40 == doctest::Approx(20));
    CHECK(out.loads.row(0, 1)[expert] * 20 == doctest::Approx(20));
  }
  CHECK(out.loads.counted);
}

}  // namespace
}  // namespace epsim
