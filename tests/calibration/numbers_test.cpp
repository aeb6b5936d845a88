// The numbers that benchmarks compute with, and what outputs are held against.
#include "calibration/measure/numbers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

#include "calibration/measure/reference.h"

namespace epsim::test {
namespace {

using namespace measure;

TEST_CASE("random values lie on the grid, are centred and survive bf16 and e4m3 unchanged") {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const float x = random_value(1, static_cast<std::uint64_t>(i), kBf16Steps);
    REQUIRE(x >= -1.0f);
    REQUIRE(x < 1.0f);
    REQUIRE(bf16_value(bf16_bits(x)) == x);
    const float y = random_value(2, static_cast<std::uint64_t>(i), kFp8Steps);
    REQUIRE(e4m3_value(e4m3_bits(y)) == y);
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / kCount) < 0.01);  // five standard deviations of a mean of 1e5 uniform values
  CHECK(squares / kCount == doctest::Approx(1.0 / 3).epsilon(0.01));
  CHECK(random_value(1, 5, 128) != random_value(2, 5, 128));
}

TEST_CASE("bf16 rounds to nearest, ties to even") {
  CHECK(bf16_value(bf16_bits(1.0f)) == 1.0f);
  CHECK(bf16_value(bf16_bits(1.0f + 0x1p-8f)) == 1.0f);                      // a tie, 1 is even
  CHECK(bf16_value(bf16_bits(1.0f + 0x1p-7f + 0x1p-8f)) == 1.0f + 0x1p-6f);  // a tie, up to even
  CHECK(bf16_value(bf16_bits(1.0f + 0x1.8p-8f)) == 1.0f + 0x1p-7f);
  CHECK(bf16_value(bf16_bits(-3.0f)) == -3.0f);
  CHECK(std::isnan(bf16_value(bf16_bits(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isinf(bf16_value(bf16_bits(std::numeric_limits<float>::infinity()))));
}

TEST_CASE("every e4m3 number comes back, and others round to the nearest of them") {
  std::set<float> numbers;
  for (int b = 0; b < 256; ++b) {
    const float x = e4m3_value(static_cast<std::uint8_t>(b));
    if (b % 128 == 127) {
      CHECK(std::isnan(x));
    } else {
      numbers.insert(x);
      if (x != 0) {
        CHECK(e4m3_bits(x) == b);
      }
    }
  }
  CHECK(*numbers.rbegin() == 448.0f);
  CHECK(e4m3_value(1) == 0x1p-9f);
  CHECK(e4m3_value(e4m3_bits(1e9f)) == 448.0f);
  for (int i = 0; i < 20000; ++i) {
    const float x = 500.0f * random_value(3, static_cast<std::uint64_t>(i), 1 << 20) *
                    random_value(4, static_cast<std::uint64_t>(i), 1 << 20);
    if (std::abs(x) <= 448.0f) {
      const auto above = numbers.lower_bound(x);
      const float up = *above, down = above == numbers.begin() ? up : *std::prev(above);
      const float got = e4m3_value(e4m3_bits(x));
      CHECK(std::abs(got - x) <= std::min(std::abs(up - x), std::abs(down - x)));
    }
  }
}

TEST_CASE("the error of outputs is relative to their norm, and infinite where one is missing") {
  OutputError error;
  CHECK(!error.report(1).good());  // nothing was looked at
  error.add(3.0, 3.0, "a");
  error.add(4.5, 4.0, "b");
  CHECK(error.relative() == doctest::Approx(0.1));  // 0.5 of sqrt(9 + 16)
  CHECK(error.report(0.11).good());
  CHECK(!error.report(0.09).good());
  CHECK(error.report(1).detail == "worst at b: 4.5, expected 4");
  error.add(std::numeric_limits<double>::quiet_NaN(), 1.0, "c");
  CHECK(!error.report(1).good());
}

TEST_CASE("samples hold the corners and stay inside") {
  const auto samples = sample_outputs(7, 9, 40, 1);
  CHECK(samples.size() == 40);
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  for (const Sample& s : samples) {
    CHECK((s.row >= 0 && s.row < 7 && s.column >= 0 && s.column < 9));
    seen.insert({s.row, s.column});
  }
  CHECK(seen.contains({0, 0}));
  CHECK(seen.contains({6, 8}));
  CHECK(seen.size() > 20);
  CHECK(sample_outputs(0, 9, 40, 1).empty());
}

TEST_CASE("SiLU is x times its sigmoid") {
  CHECK(silu(0) == 0);
  CHECK(silu(2) == doctest::Approx(2 / (1 + std::exp(-2.0))));
}

}  // namespace
}  // namespace epsim::test
