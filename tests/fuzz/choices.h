// A fuzz target's input as a row of choices, for targets that build what a reader is given. Behind its end all are 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace epsim::fuzz {

class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : left_(data, size) {}

  bool done() const { return left_.empty(); }
  std::size_t below(std::size_t count) {
    std::size_t out = byte();
    out = count > 256 ? out << 8 | byte() : out;
    return out % count;
  }
  template <class T, std::size_t N>
  const T& of(const std::array<T, N>& all) {
    return all[below(N)];
  }

 private:
  std::size_t byte() {
    if (left_.empty()) {
      return 0;
    }
    const std::uint8_t out = left_.front();
    left_ = left_.subspan(1);
    return out;
  }

  std::span<const std::uint8_t> left_;
};

}  // namespace epsim::fuzz
