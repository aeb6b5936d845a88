// e^x and powers, several at a time: for vectors, and for loops over plain numbers that the compiler makes vectors of.
#pragma once

#include <cstdint>
#include <cstring>

namespace epsim {

// Turns x into e^x. Relative error below 3e-7 for x in [-80, 80]; x outside is clamped to it. Equal on every machine
// and for every width: plain IEEE operations.
//   Method : x = (n + f) ln 2 with f in [-0.5, 0.5]; 2^f by its Taylor polynomial of degree 6, 2^n into the exponent.
template <class Float, class Int>
inline __attribute__((always_inline)) void exp_lanes(Float& x) {
  const Float limit = Float{} + 80.0F;
  x = x < limit ? x : limit;
  x = x > -limit ? x : -limit;
  const Float scaled = x * 1.44269504088896341F;  // log2 e
  // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
  const Float shifted = scaled + 12582912.0F;
  const Float f = scaled - (shifted - 12582912.0F);
  Float p = Float{} + 1.540353039e-4F;  // ln(2)^6 / 6!
  p = p * f + 1.333355815e-3F;
  p = p * f + 9.618129108e-3F;
  p = p * f + 5.550410866e-2F;
  p = p * f + 2.402265070e-1F;
  p = p * f + 6.931471806e-1F;
  p = p * f + 1.0F;
  Int bits, exponent;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;  // the bits of 1.5 * 2^23 itself fall out at the top
  std::memcpy(&x, &bits, sizeof x);
}

// ln x for normal x > 0, within 3e-9 of it.
//   Method : x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh((m - 1) / (m + 1)) by its series to the power 9.
inline __attribute__((always_inline)) double log_of(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  std::uint64_t whole = (bits >> 52) | 0x4330000000000000U, part = (bits & 0xfffffffffffffU) | 0x3ff0000000000000U;
  double e, m;
  std::memcpy(&e, &whole, sizeof e);  // 2^52 + the exponent's field
  std::memcpy(&m, &part, sizeof m);
  const double half = m > 1.4142135623730951 ? 1.0 : 0.0;
  m *= 1.0 - 0.5 * half;
  e += half - (4503599627370496.0 + 1023.0);
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 1.0 / 9;
  p = p * s2 + 1.0 / 7;
  p = p * s2 + 1.0 / 5;
  p = p * s2 + 1.0 / 3;
  return e * 0.69314718055994531 + 2.0 * s * (1.0 + p * s2);
}

// e^x for x <= 0, within 6e-9 of it; x below -700 is taken for it.
//   Method : as exp_lanes(), with a polynomial of degree 7.
inline __attribute__((always_inline)) double exp_of(double x) {
  const double limited = x > -700.0 ? x : -700.0;
  const double scaled = limited * 1.4426950408889634;
  const double shifted = scaled + 6755399441055744.0;  // 1.5 * 2^52
  const double f = (scaled - (shifted - 6755399441055744.0)) * 0.69314718055994531;
  double p = 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  std::uint64_t bits, exponent;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 52;
  double out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

}  // namespace epsim
