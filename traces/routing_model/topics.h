// Where topics come from: normal coordinates of domains, sequences, stretches and serving steps, each from its own
// stream.
#pragma once

#include <cmath>
#include <string_view>

#include "traces/routing_model/routing_law.h"

namespace epsim {

// Adds `scale` times a normal vector, drawn for (stream, index, sub_index), to z.
inline void add_normal(std::span<float> z, double scale, Seed seed, std::string_view stream, std::uint64_t index,
                       std::uint64_t sub_index) {
  RandomStream random(seed, stream, index, sub_index);
  for (float& x : z) {
    x += static_cast<float>(scale * random.normal());
  }
}

// The same, moving with time: at whole numbers of `time` the vector is that number's, between them it turns from one to
// the next on a quarter circle, so that its variance stays 1 and its correlation falls to 0 within two.
inline void add_moving_normal(std::span<float> z, double scale, double time, Seed seed, std::string_view stream,
                              std::uint64_t sub_index) {
  const double whole = std::floor(time), angle = (time - whole) * 1.57079632679489662;
  const auto node = static_cast<std::uint64_t>(static_cast<std::int64_t>(whole));
  add_normal(z, scale * std::cos(angle), seed, stream, node, sub_index);
  if (angle > 0) {
    add_normal(z, scale * std::sin(angle), seed, stream, node + 1, sub_index);
  }
}

}  // namespace epsim
