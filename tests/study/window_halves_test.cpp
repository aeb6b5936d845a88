#include "sim/study/window_halves.h"

#include <doctest/doctest.h>

#include <cmath>

namespace epsim {

TEST_CASE("halves of a window share its counts, each assignment by a fair coin") {
  LoadWindow window(2, 2000);
  for (int e = 0; e < 2000; ++e) {
    window.layer(0)[static_cast<std::size_t>(e)] = 100;
    window.layer(1)[static_cast<std::size_t>(e)] = 10'000;  // by the normal distribution
  }
  RandomStream random(Seed{7}, "test");
  const WindowHalves halves = halves_of(window, random);
  for (int l = 0; l < 2; ++l) {
    const double n = window.layer(l)[0];
    double squares = 0;
    for (std::size_t e = 0; e < 2000; ++e) {
      const double first = halves.first.layer(l)[e];
      CHECK(first + halves.second.layer(l)[e] == n);
      CHECK(first == std::floor(first));
      squares += (first - n / 2) * (first - n / 2);
    }
    // Variance n / 4; the deviation of a mean of 2000 squares is sqrt(2 / 2000) = 3.2 % of it. Four of these.
    CHECK(squares / 2000 == doctest::Approx(n / 4).epsilon(0.13));
    CHECK(halves.first.total(l) == doctest::Approx(1000 * n).epsilon(4 * std::sqrt(2000 * n / 4) / (1000 * n)));
  }
}

TEST_CASE("expected loads have no noise to split") {
  LoadWindow window(1, 2);
  window.layer(0)[0] = 0.5;
  window.layer(0)[1] = 1;
  RandomStream random(Seed{7}, "test");
  const WindowHalves halves = halves_of(window, random);
  for (const LoadWindow* half : {&halves.first, &halves.second}) {
    CHECK(half->layer(0)[0] == 0.5);
    CHECK(half->layer(0)[1] == 1);
  }
}

}  // namespace epsim
