// Units live in types: what does not add up does not compile.
//
// Models compute in double Seconds, the engine orders integer picoseconds (Ticks). Bytes and flops are doubles: whole
// numbers are exact up to 2^53 (9 PB), and expected traffic may be fractional. GB is 1e9, GiB is 2^30.
#pragma once

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace epsim {

using Seconds = std::chrono::duration<double>;
using Ticks = std::chrono::duration<std::int64_t, std::pico>;

// A number with a unit. Same unit: adds, subtracts, compares, and divides to a plain ratio.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  constexpr double count() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity(a.value_ * k); }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity(a.value_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0.0;
};

using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;
using RequestsPerSecond = Quantity<struct RequestsPerSecondTag>;

constexpr Seconds operator/(Bytes size, BytesPerSecond rate) { return Seconds(size.count() / rate.count()); }
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) { return Seconds(work.count() / rate.count()); }

inline constexpr double kKiB = 1024.0;
inline constexpr double kMiB = 1024.0 * 1024.0;
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

constexpr double to_gib(Bytes size) { return size.count() / kGiB; }
constexpr double to_ms(Seconds time) { return time.count() * 1e3; }
constexpr double to_us(Seconds time) { return time.count() * 1e6; }

// The one door from model time to event time: rounds once and checks the range (about 106 days).
inline Ticks to_ticks(Seconds time) {
  const double picoseconds = time.count() * 1e12;
  if (!(picoseconds >= 0 && picoseconds < 9.2e18)) {
    throw std::range_error("not an event delay: " + std::to_string(time.count()) + " s");
  }
  return Ticks{std::llround(picoseconds)};
}
constexpr Seconds to_seconds(Ticks time) { return Seconds(static_cast<double>(time.count()) * 1e-12); }

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<double>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(static_cast<double>(n) * kKiB); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(static_cast<double>(n) * kMiB); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(static_cast<double>(n) * kGiB); }
constexpr BytesPerSecond operator""_GBps(unsigned long long n) { return BytesPerSecond(static_cast<double>(n) * 1e9); }
constexpr BytesPerSecond operator""_GBps(long double n) { return BytesPerSecond(static_cast<double>(n) * 1e9); }
constexpr FlopsPerSecond operator""_TFps(unsigned long long n) { return FlopsPerSecond(static_cast<double>(n) * 1e12); }
constexpr Seconds operator""_us(unsigned long long n) { return Seconds(static_cast<double>(n) * 1e-6); }
constexpr Seconds operator""_us(long double n) { return Seconds(static_cast<double>(n) * 1e-6); }
constexpr Seconds operator""_ms(unsigned long long n) { return Seconds(static_cast<double>(n) * 1e-3); }
constexpr Seconds operator""_s(unsigned long long n) { return Seconds(static_cast<double>(n)); }
constexpr Seconds operator""_s(long double n) { return Seconds(static_cast<double>(n)); }
}  // namespace literals

}  // namespace epsim
