#include "sim/domain/affinity.h"

#include <fmt/format.h>

#include <memory>

#include "sim/core/check.h"
#include "sim/core/error.h"

namespace epsim {

Affinity::Affinity(int layers, int experts)
    : layers_(layers), experts_(experts), count_(static_cast<std::size_t>(layers) * cells()) {}

void Affinity::add(int l, int a, int b, double tokens) {
  EPSIM_CHECK(a != b, "an expert's co-activation with itself is not counted");
  count_[offset(l) + cell(a, b)] += tokens;
  count_[offset(l) + cell(b, a)] += tokens;
}

void Affinity::add_tokens(std::span<const std::uint16_t> ids, int top_k) {
  const auto k = static_cast<std::size_t>(top_k), layers = static_cast<std::size_t>(layers_);
  EPSIM_CHECK(k > 0 && ids.size() % (k * layers) == 0, "whole tokens are counted");
  for (std::size_t at = 0; at < ids.size(); at += k) {
    const int l = static_cast<int>(at / k % layers);
    for (std::size_t i = at; i < at + k; ++i) {
      for (std::size_t j = at; j < i; ++j) {
        add(l, ids[j], ids[i]);
      }
    }
  }
}

template <class Id>
LoadWindow window_from_routing(std::span<const Id> ids, const RoutingShape& shape, const std::string& where) {
  const auto k = static_cast<std::size_t>(shape.top_k);
  if (shape.ids_per_token() == 0 || ids.size() % shape.ids_per_token() != 0) {
    throw InputError({where, 0, ""}, fmt::format("{} expert ids are not whole tokens of {} layers with {} ids each.",
                                                 ids.size(), shape.layers, shape.top_k));
  }
  LoadWindow window(shape.layers, shape.experts);
  auto affinity = std::make_shared<Affinity>(shape.layers, shape.experts);
  for (std::size_t at = 0; at < ids.size(); at += k) {
    const int l = static_cast<int>(at / k % static_cast<std::size_t>(shape.layers));
    for (std::size_t i = at; i < at + k; ++i) {
      const int expert = static_cast<int>(ids[i]);
      if (expert < 0 || expert >= shape.experts) {
        throw InputError({where, 0, ""}, fmt::format("token {}, MoE layer {}: expert {} is not in 0..{}.",
                                                     at / shape.ids_per_token(), l, expert, shape.experts - 1));
      }
      window.layer(l)[static_cast<std::size_t>(expert)] += 1.0;
      for (std::size_t j = at; j < i; ++j) {
        if (ids[j] == ids[i]) {
          throw InputError({where, 0, ""}, fmt::format("token {}, MoE layer {}: expert {} is named twice.",
                                                       at / shape.ids_per_token(), l, expert));
        }
        affinity->add(l, static_cast<int>(ids[j]), expert);
      }
    }
  }
  window.set_affinity(std::move(affinity));
  return window;
}

template LoadWindow window_from_routing(std::span<const std::uint8_t>, const RoutingShape&, const std::string&);
template LoadWindow window_from_routing(std::span<const std::uint16_t>, const RoutingShape&, const std::string&);
template LoadWindow window_from_routing(std::span<const std::int32_t>, const RoutingShape&, const std::string&);

}  // namespace epsim
