#include "sim/core/units.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace epsim {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Subtractable = requires(A a, B b) {
  a - b;
};
template <class A, class B>
concept Comparable = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept Multipliable = requires(A a, B b) {
  a* b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};
template <class From, class To>
concept Implicit = std::is_convertible_v<From, To>;

// What adds up.
static_assert(Addable<Bytes, Bytes> && Subtractable<Bytes, Bytes> && Comparable<Bytes, Bytes>);
static_assert(std::is_same_v<decltype(Bytes() / BytesPerSecond()), Seconds>);
static_assert(std::is_same_v<decltype(Flops() / FlopsPerSecond()), Seconds>);
static_assert(std::is_same_v<decltype(Bytes() / Bytes()), double>);
static_assert(std::is_same_v<decltype(Bytes() * 2.0), Bytes> && std::is_same_v<decltype(2.0 * Bytes()), Bytes>);
// What does not.
static_assert(!Addable<Bytes, Flops> && !Addable<Bytes, double> && !Addable<Bytes, Seconds>);
static_assert(!Subtractable<Bytes, BytesPerSecond> && !Comparable<Bytes, Flops> && !Comparable<Bytes, double>);
static_assert(!Multipliable<Bytes, Bytes> && !Multipliable<Bytes, Seconds>);
static_assert(!Divisible<Bytes, FlopsPerSecond> && !Divisible<Flops, BytesPerSecond> && !Divisible<double, Bytes>);
static_assert(!Implicit<double, Bytes> && !Implicit<Bytes, double> && !Implicit<Bytes, Flops>);
// Model time never becomes event time without to_ticks(), which checks and rounds.
static_assert(!Implicit<Seconds, Ticks> && !Implicit<double, Seconds> && !Implicit<std::int64_t, Ticks>);

TEST_CASE("units compute") {
  CHECK((3_KiB + 1_KiB).count() == 4096.0);
  CHECK((3_KiB - 1_KiB).count() == 2048.0);
  Bytes size = 1_MiB;
  size += 1_MiB;
  size -= 1_KiB;
  CHECK(size.count() == 2 * 1048576.0 - 1024.0);
  CHECK((2.0 * 5_B).count() == 10.0);
  CHECK((5_B * 3.0 / 2.0).count() == 7.5);
  CHECK(1_MiB / 1_KiB == 1024.0);
  CHECK(1_GiB > 1_MiB);
  CHECK(Bytes() == 0_B);
}

TEST_CASE("amount over rate is time") {
  CHECK((100_GiB / 50_GBps).count() == doctest::Approx(100 * 1073741824.0 / 50e9));
  CHECK((Flops(6.24e14) / 312_TFps).count() == doctest::Approx(2.0));
  CHECK(to_us(1_MiB / 12.5_GBps) == doctest::Approx(83.88608));  // 2^20 / 12.5e9 s
  CHECK(to_ms(250_us) == doctest::Approx(0.25));
  CHECK(to_gib(3_GiB) == 3.0);
  CHECK((2_s).count() == 2.0);
  CHECK((1.5_us).count() == doctest::Approx(1.5e-6));
  CHECK((2.5_s + 10_ms).count() == doctest::Approx(2.51));
}

TEST_CASE("model time becomes event time once, to the nearest picosecond") {
  CHECK(to_ticks(Seconds(0)) == Ticks{0});
  CHECK(to_ticks(Seconds(1e-12)) == Ticks{1});
  CHECK(to_ticks(Seconds(1.4e-12)) == Ticks{1});
  CHECK(to_ticks(Seconds(1.6e-12)) == Ticks{2});
  CHECK(to_ticks(Seconds(0.4e-12)) == Ticks{0});
  CHECK(to_ticks(177.772_us) == Ticks{177772000});
  CHECK(to_ticks(3600_s) == Ticks{3600000000000000});
  CHECK(to_seconds(Ticks{1500000000000}).count() == doctest::Approx(1.5));
  for (const std::int64_t ticks : {std::int64_t{1}, std::int64_t{999999999999}, std::int64_t{4503599627370495}}) {
    CHECK(to_ticks(to_seconds(Ticks{ticks})) == Ticks{ticks});  // exact below 2^52 ps = 75 minutes
  }
}

TEST_CASE("what is no delay is refused") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double seconds : {-1e-12, -1.0, std::nan(""), inf, -inf, 9.2e6, 1e300}) {
    CAPTURE(seconds);
    CHECK_THROWS_AS(to_ticks(Seconds(seconds)), std::range_error);
  }
  CHECK(to_ticks(Seconds(9.19e6)) == Ticks{9190000000000000000});  // 106 days
}

}  // namespace
}  // namespace epsim
