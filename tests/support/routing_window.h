// The window that a stretch of tokens makes: loads and co-activation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/domain/affinity.h"
#include "sim/domain/load_window.h"

namespace epsim::test {

// What per-token expert ids look like: [token][layer][k], k fastest.
struct RoutingShape {
  int layers = 0, experts = 0, top_k = 0;
  std::size_t ids_per_token() const { return static_cast<std::size_t>(layers) * static_cast<std::size_t>(top_k); }
};

// `ids` holds whole tokens of valid ids.
template <class Id>
LoadWindow window_from_routing(std::span<const Id> ids, const RoutingShape& shape) {
  LoadWindow window(shape.layers, shape.experts);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    window.layer(static_cast<int>(i % shape.ids_per_token()) / shape.top_k)[ids[i]] += 1.0;
  }
  auto affinity = std::make_shared<Affinity>(shape.layers, shape.experts);
  affinity->add_tokens(std::vector<std::uint16_t>(ids.begin(), ids.end()), shape.top_k);
  window.set_affinity(std::move(affinity));
  return window;
}

}  // namespace epsim::test
