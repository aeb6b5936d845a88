// A load and the id it belongs to, packed into one integer whose order is (load, id).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace epsim {

// Bits of a floating-point number >= 0 order like the number itself, so one integer comparison replaces a comparison of
// pairs. Loads must not be negative; adding zero makes minus zero zero.
template <class Real>
struct LoadKeys;

template <>
struct LoadKeys<float> {
  using Key = std::uint64_t;
  static constexpr int kIdBits = 32;
  static Key load_bits(float load) { return std::bit_cast<std::uint32_t>(load + 0.0F); }
  static float load_of(Key key) { return std::bit_cast<float>(static_cast<std::uint32_t>(key >> kIdBits)); }
};

template <>
struct LoadKeys<double> {
  __extension__ using Key = unsigned __int128;
  static constexpr int kIdBits = 64;
  static Key load_bits(double load) { return std::bit_cast<std::uint64_t>(load + 0.0); }
  static double load_of(Key key) { return std::bit_cast<double>(static_cast<std::uint64_t>(key >> kIdBits)); }
};

// Smallest load first, then smallest id.
template <class Real>
typename LoadKeys<Real>::Key ascending_key(Real load, std::size_t id) {
  return (LoadKeys<Real>::load_bits(load) << LoadKeys<Real>::kIdBits) | static_cast<std::uint32_t>(id);
}
// Compared with `>`: largest load first, then smallest id.
template <class Real>
typename LoadKeys<Real>::Key descending_key(Real load, std::size_t id) {
  return ascending_key(load, ~static_cast<std::uint32_t>(id));
}
template <class Real>
std::size_t id_of_ascending(typename LoadKeys<Real>::Key key) {
  return static_cast<std::uint32_t>(key);
}
template <class Real>
std::size_t id_of_descending(typename LoadKeys<Real>::Key key) {
  return static_cast<std::uint32_t>(~static_cast<std::uint32_t>(key));
}

// Binary min-heap of keys whose top can be replaced in place: what a greedy loop does at every step.
template <class Key>
class KeyHeap {
 public:
  explicit KeyHeap(std::vector<Key> keys) : keys_(std::move(keys)) {
    for (std::size_t i = keys_.size() / 2; i-- > 0;) {
      sift_down(i);
    }
  }
  bool empty() const { return keys_.empty(); }
  Key top() const { return keys_.front(); }
  void replace_top(Key key) {
    keys_.front() = key;
    sift_down(0);
  }
  void pop() {
    keys_.front() = keys_.back();
    keys_.pop_back();
    if (!keys_.empty()) {
      sift_down(0);
    }
  }

 private:
  void sift_down(std::size_t at) {
    const std::size_t size = keys_.size();
    const Key moving = keys_[at];
    for (std::size_t child = 2 * at + 1; child < size; child = 2 * at + 1) {
      if (child + 1 < size && keys_[child + 1] < keys_[child]) {
        ++child;
      }
      if (!(keys_[child] < moving)) {
        break;
      }
      keys_[at] = keys_[child];
      at = child;
    }
    keys_[at] = moving;
  }

  std::vector<Key> keys_;
};

}  // namespace epsim
