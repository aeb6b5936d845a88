// A fuzz target's input as a row of choices, for targets that build what a reader is given. Behind its end all are 0.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace epsim::fuzz {

class Choices {
 public:
  explicit Choices(const std::string& bytes) : left_(bytes) {}

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
    const auto out = static_cast<unsigned char>(left_.front());
    left_.remove_prefix(1);
    return out;
  }

  std::string_view left_;
};

}  // namespace epsim::fuzz
