#include "sim/domain/affinity.h"

#include <algorithm>

#include "sim/core/check.h"

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
  sample_.layers = layers_;
  sample_.top_k = top_k;
  for (std::size_t at = 0; at < ids.size(); at += k * layers) {
    keep(ids.subspan(at, k * layers));
  }
}

// Tokens 0, every, 2 every, ...; when they are too many, every second one goes.
void Affinity::keep(std::span<const std::uint16_t> token) {
  const std::size_t number = added_++;
  if (number % every_ != 0) {
    return;
  }
  std::vector<std::uint16_t>& kept = sample_.experts;
  if (kept.size() == kMostKept * token.size()) {
    const auto size = std::ssize(token);
    for (std::ptrdiff_t from = 2; from * size < std::ssize(kept); from += 2) {
      std::copy_n(kept.begin() + from * size, size, kept.begin() + from / 2 * size);
    }
    kept.resize(kept.size() / 2);
    every_ *= 2;  // the token at hand comes after kMostKept, an even number of them
  }
  kept.insert(kept.end(), token.begin(), token.end());
}

}  // namespace epsim
