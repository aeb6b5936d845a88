#include "sim/core/rng.h"

#include <algorithm>
#include <cmath>

#include "sim/core/check.h"
#include "sim/core/fingerprint.h"

namespace epsim {

RandomStream::RandomStream(Seed seed, std::string_view name, std::uint64_t index, std::uint64_t sub_index) {
  Fingerprint key;
  key.add(static_cast<std::uint64_t>(seed));
  key.add(name);
  key.add(index);
  key.add(sub_index);
  std::uint64_t state = key.value();
  for (std::uint64_t& word : s_) {
    state += 0x9e3779b97f4a7c15ULL;
    word = Fingerprint::mix(state);
  }
}

std::uint64_t RandomStream::below(std::uint64_t n) {
  EPSIM_CHECK(n > 0, "an empty range has no number in it");
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(bits()) * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t threshold = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < threshold) {
      product = static_cast<Wide>(bits()) * n;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomStream::exponential(double mean) { return -mean * std::log1p(-uniform()); }

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
  const double angle = 6.283185307179586476925 * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

double RandomStream::gamma(double shape, double scale) {
  EPSIM_CHECK(shape > 0 && scale > 0, "gamma needs a positive shape and scale");
  if (shape < 1.0) {
    const double boost = std::pow(1.0 - uniform(), 1.0 / shape);
    return gamma(shape + 1.0, scale) * boost;
  }
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double root = 1.0 + c * x;
    if (root <= 0) {
      continue;
    }
    const double v = root * root * root;
    if (std::log1p(-uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v * scale;
    }
  }
}

double RandomStream::lognormal(double mu, double sigma) { return std::exp(mu + sigma * normal()); }

std::int64_t RandomStream::poisson(double mean) {
  EPSIM_CHECK(mean >= 0, "a Poisson mean is not negative");
  if (mean < 30.0) {
    std::int64_t k = 0;
    for (double product = uniform(), limit = std::exp(-mean); product > limit; product *= uniform()) {
      ++k;
    }
    return k;
  }
  const double b = 0.931 + 2.53 * std::sqrt(mean);
  const double a = -0.059 + 0.02483 * b;
  const double inv_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double v_r = 0.9277 - 3.6224 / (b - 2.0);
  for (;;) {
    const double u = uniform() - 0.5;
    const double v = 1.0 - uniform();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2.0 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= v_r) {
      return static_cast<std::int64_t>(k);
    }
    if (k < 0 || (us < 0.013 && v > us)) {
      continue;
    }
    if (std::log(v) + std::log(inv_alpha) - std::log(a / (us * us) + b) <=
        -mean + k * std::log(mean) - std::lgamma(k + 1.0)) {
      return static_cast<std::int64_t>(k);
    }
  }
}

std::int64_t RandomStream::geometric(double mean) {
  EPSIM_CHECK(mean >= 1.0, "a geometric count starts at 1");
  if (mean == 1.0) {
    return 1;
  }
  return 1 + static_cast<std::int64_t>(std::log1p(-uniform()) / std::log1p(-1.0 / mean));
}

std::int64_t RandomStream::binomial(std::int64_t n, double p) {
  EPSIM_CHECK(n >= 0 && p >= 0 && p <= 1, "binomial needs n >= 0 and p in [0, 1]");
  if (p > 0.5) {
    return n - binomial(n, 1.0 - p);
  }
  const double mean = static_cast<double>(n) * p;
  if (mean < 12.0) {  // inversion: walk the probability mass from 0
    const double ratio = p / (1.0 - p);
    double mass = std::exp(static_cast<double>(n) * std::log1p(-p));
    double u = uniform();
    std::int64_t k = 0;
    while (u > mass && k < n) {
      u -= mass;
      mass *= ratio * static_cast<double>(n - k) / static_cast<double>(k + 1);
      ++k;
    }
    return k;
  }
  const double drawn = std::nearbyint(mean + std::sqrt(mean * (1.0 - p)) * normal());
  return std::clamp(static_cast<std::int64_t>(drawn), std::int64_t{0}, n);
}

}  // namespace epsim
