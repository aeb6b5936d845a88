// e^x, four at a time.
#pragma once

#include "traces/routing/byte_gaussian.h"

namespace epsim {

// Relative error below 3e-7 for x in [-80, 80]; x outside is clamped to it. Equal on every machine: plain IEEE
// operations.
//   Method : x = (n + f) ln 2 with f in [-0.5, 0.5]; 2^f by its Taylor polynomial of degree 6, 2^n into the exponent.
inline FloatX4 exp_x4(FloatX4 x) {
  const FloatX4 limit = FloatX4{} + 80.0F;
  x = x < limit ? x : limit;
  x = x > -limit ? x : -limit;
  const FloatX4 scaled = x * 1.44269504088896341F;  // log2 e
  // Adding 1.5 * 2^23 leaves the nearest whole number in the low bits.
  const FloatX4 shifted = scaled + 12582912.0F;
  const FloatX4 f = scaled - (shifted - 12582912.0F);
  FloatX4 p = FloatX4{} + 1.540353039e-4F;  // ln(2)^6 / 6!
  p = p * f + 1.333355815e-3F;
  p = p * f + 9.618129108e-3F;
  p = p * f + 5.550410866e-2F;
  p = p * f + 2.402265070e-1F;
  p = p * f + 6.931471806e-1F;
  p = p * f + 1.0F;
  IntX4 bits, exponent;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;  // the bits of 1.5 * 2^23 itself fall out at the top
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

}  // namespace epsim
