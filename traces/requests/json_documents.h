// JSON documents one after the other (JSON lines, or one document over many lines) as a single JSON array, byte by
// byte, for nlohmann's event parser: memory stays bounded whatever the file holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "traces/format/text_input.h"

namespace epsim {

// Adds '[', ',' between documents and ']'. Python writes NaN and Infinity, which are no JSON; they become
// null. Refuses a value that goes on for more than kMaxToken bytes, and nesting deeper than kMaxDepth.
class JsonDocuments {
 public:
  static constexpr std::int64_t kMaxToken = std::int64_t{1} << 22;  // a generated text can be long

  static constexpr std::int64_t kMaxDepth = 1000;

  explicit JsonDocuments(ByteInput& input) : input_(input) { advance(); }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    Iterator() = default;  // the end
    explicit Iterator(JsonDocuments& source) : source_(&source) {}
    char operator*() const { return source_->current_; }
    Iterator& operator++() {
      source_->advance();
      return *this;
    }
    void operator++(int) { source_->advance(); }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_end() == b.at_end(); }

   private:
    bool at_end() const { return source_ == nullptr || source_->ended_; }
    JsonDocuments* source_ = nullptr;
  };
  Iterator begin() { return Iterator(*this); }
  Iterator end() { return {}; }
  // Line of the byte that was taken last.
  int line() const { return taken_line_; }

 private:
  void advance();
  void outside_strings(int c);
  void expect_word(const char* rest, const char* replacement);

  ByteInput& input_;
  std::string pending_;  // bytes to give out before the next one of the input, last first
  char current_ = '[';
  int current_line_ = 1, taken_line_ = 1;
  std::int64_t depth_ = 0, documents_ = 0, run_ = 0;
  bool started_ = false, closed_ = false, ended_ = false, in_string_ = false, escaped_ = false;
};

}  // namespace epsim
