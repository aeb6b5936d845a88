// Feeds a ByteInput to nlohmann's event parser, which sees an iterator pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "traces/format/text_input.h"

namespace epsim {

// Input iterator over the bytes. Refuses a value that goes on for more than kMaxToken bytes, so that a file of nothing
// but digits, blanks or letters cannot fill the memory.
class JsonBytes {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  static constexpr std::int64_t kMaxToken = 1 << 16;

  JsonBytes() = default;  // the end
  explicit JsonBytes(ByteInput& input) : input_(&input) { ++*this; }

  char operator*() const { return current_; }
  JsonBytes& operator++() {
    const int c = input_->next();
    if (c == ByteInput::kEnd) {
      input_ = nullptr;
      return *this;
    }
    current_ = static_cast<char>(c);
    run_ = separates(current_) ? 0 : run_ + 1;
    if (run_ > kMaxToken) {
      input_->fail("a single value goes on for more than 65536 bytes; this is not a file of the expected kind.");
    }
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const JsonBytes& a, const JsonBytes& b) { return a.input_ == b.input_; }

 private:
  static bool separates(char c) { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == ':'; }
  ByteInput* input_ = nullptr;
  char current_ = 0;
  std::int64_t run_ = 0;
};

}  // namespace epsim
