// A figure over seeds.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "sim/report/format.h"

namespace epsim {

// Mean over seeds and half the width of its 95 % interval (Student's t); the latter is undefined for a single seed.
struct Estimate {
  double mean = kUndefined, half_width = kUndefined;
  double low() const { return mean - half_width; }
  double high() const { return mean + half_width; }
};
Estimate estimate(std::span<const double> by_seed);
// Of two figures seed by seed: a - b, and a / b as ratio() has it.
std::vector<double> differences(std::span<const double> a, std::span<const double> b);
std::vector<double> ratios(std::span<const double> a, std::span<const double> b);

// The same of rates that a search found (`rates` 1), or of ratios of two (2). Where it began decides where in its last
// bracket, `bracket` wide relative to the rate, a rate lies, which seeds that happen to agree would hide: anywhere, so
// that its deviation is bracket / sqrt(12), a ratio's sqrt(2) times that, and 1.96 of them over sqrt(seeds) are 95 %.
Estimate searched_estimate(std::span<const double> by_seed, double bracket, int rates);

// {"mean": ..., "half_width": ...}, null where it is not defined.
nlohmann::ordered_json json_of(const Estimate& e);

}  // namespace epsim
