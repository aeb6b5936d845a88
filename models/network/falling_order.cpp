#include "models/network/falling_order.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "sim/core/simd.h"

namespace epsim {
namespace {

// rank[i]: how many keys exceed keys[i]. Without a branch, so faster than sorting for up to kFew.
constexpr std::size_t kFew = 512;
EPSIM_SIMD void rank_all(const std::int64_t* __restrict keys, std::size_t n, std::int64_t* __restrict rank) {
  std::fill_n(rank, n, std::int64_t{0});
  for (std::size_t j = 0; j < n; ++j) {
    const std::int64_t key = keys[j];
    for (std::size_t i = 0; i < n; ++i) {
      rank[i] += key > keys[i] ? 1 : 0;
    }
  }
}

}  // namespace

// Keys grow with the values (the bits of a double do) and differ: the last bits, too few to matter, count down.
const std::vector<std::int64_t>& FallingOrder::ranks(std::span<const double> values) {
  const std::size_t n = values.size();
  keys_.resize(n);
  ranks_.resize(n);
  const auto last_bits = static_cast<std::int64_t>(std::bit_ceil(n)) - 1;
  for (std::size_t i = 0; i < n; ++i) {
    keys_[i] = (std::bit_cast<std::int64_t>(values[i]) & ~last_bits) + static_cast<std::int64_t>(n - 1 - i);
  }
  if (n <= kFew) {
    rank_all(keys_.data(), n, ranks_.data());
  } else {
    std::sort(keys_.begin(), keys_.end(), std::greater<>());
    for (std::size_t rank = 0; rank < n; ++rank) {
      ranks_[n - 1 - static_cast<std::size_t>(keys_[rank] & last_bits)] = static_cast<std::int64_t>(rank);
    }
  }
  return ranks_;
}

}  // namespace epsim
