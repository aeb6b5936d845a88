#include "sim/core/rng.h"

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

std::int64_t RandomStream::geometric(double mean) {
  EPSIM_CHECK(mean >= 1.0, "a geometric count starts at 1");
  if (mean == 1.0) {
    return 1;
  }
  return 1 + static_cast<std::int64_t>(std::log1p(-uniform()) / std::log1p(-1.0 / mean));
}

}  // namespace epsim
