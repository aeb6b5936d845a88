// Text from a plain or gzip file, a buffer at a time: memory stays bounded whatever the file holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.h"

namespace epsim {

// The bytes of a file, gunzipped when it starts with gzip's magic number. Throws InputError when the file is missing,
// unreadable, or a damaged or cut-off gzip stream.
class ByteInput {
 public:
  static constexpr int kEnd = -1;

  explicit ByteInput(const std::filesystem::path& file);
  // Reads `content` instead of a file; `name` stands for the file in messages. Nothing is gunzipped.
  static ByteInput from_memory(std::string name, std::string content);
  ByteInput(ByteInput&&) noexcept;
  ByteInput& operator=(ByteInput&&) = delete;
  ~ByteInput();

  // The next byte, or kEnd.
  int next() {
    if (position_ == filled_ && !refill()) {
      return kEnd;
    }
    const char c = buffer_[position_++];
    line_ += c == '\n' ? 1 : 0;
    return static_cast<unsigned char>(c);
  }
  // Up to `size` bytes into `out`; fewer only at the end of the input. For binary formats.
  std::size_t read(char* out, std::size_t size);

  const std::string& name() const { return name_; }
  // Line of the last byte given out, starting at 1.
  int line() const { return static_cast<int>(line_ < INT32_MAX ? line_ : INT32_MAX); }
  [[noreturn]] void fail(const std::string& problem) const { throw InputError({name_, line(), ""}, problem); }

 private:
  struct GzFile;
  ByteInput();
  bool refill();

  std::string name_, buffer_;
  std::size_t position_ = 0, filled_ = 0;
  std::int64_t line_ = 1;
  std::unique_ptr<GzFile> file_;  // null: all of the input is in buffer_
};

// Lines without their LF or CR LF. A line longer than `max_line` bytes is an error, it is no text of ours; so are more
// lines than limits::kTextLines.
class LineReader {
 public:
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;

  explicit LineReader(ByteInput& input, std::size_t max_line = kMaxLine) : input_(input), max_line_(max_line) {}
  // False at the end. The view holds until the next call.
  bool next(std::string_view& line);
  int line_number() const { return number_; }
  InputPlace place(const std::string& column = "") const { return {input_.name(), number_, column}; }
  [[noreturn]] void fail(const std::string& problem) const { throw InputError(place(), problem); }

 private:
  ByteInput& input_;
  std::size_t max_line_;
  int number_ = 0;
  std::string text_;
};

// `bytes` little-endian bytes from `from`.
inline std::uint64_t little_endian(const char* from, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) {
    value = value << 8 | static_cast<unsigned char>(from[i]);
  }
  return value;
}

}  // namespace epsim
