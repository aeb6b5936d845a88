// e^x, several at a time: for vectors, and for loops over plain floats that the compiler makes vectors of.
#pragma once

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

}  // namespace epsim
