#include "sim/study/window_halves.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace epsim {
namespace {

constexpr double kCounted = 4096;  // above, the normal distribution is as good

// How many of n go into the first half.
double draw_half(double n, RandomStream& random) {
  if (n > kCounted) {
    return std::clamp(std::round(n / 2 + std::sqrt(n) / 2 * random.normal()), 0.0, n);
  }
  int out = 0;
  auto left = static_cast<int>(n);
  for (; left >= 64; left -= 64) {
    out += std::popcount(random.bits());
  }
  return out + (left > 0 ? std::popcount(random.bits() >> (64 - left)) : 0);
}

bool counted(const LoadWindow& window) {
  for (int l = 0; l < window.layers(); ++l) {
    const auto layer = window.layer(l);
    if (std::any_of(layer.begin(), layer.end(), [](double n) { return n != std::floor(n); })) {
      return false;
    }
  }
  return true;
}

}  // namespace

WindowHalves halves_of(const LoadWindow& window, RandomStream& random) {
  if (!counted(window)) {
    return {window, window};
  }
  WindowHalves out{LoadWindow(window.layers(), window.experts()), LoadWindow(window.layers(), window.experts())};
  out.first.set_affinity(window.affinity());
  for (int l = 0; l < window.layers(); ++l) {
    for (std::size_t e = 0; e < window.layer(l).size(); ++e) {
      const double n = window.layer(l)[e];
      out.first.layer(l)[e] = draw_half(n, random);
      out.second.layer(l)[e] = n - out.first.layer(l)[e];
    }
  }
  return out;
}

}  // namespace epsim
