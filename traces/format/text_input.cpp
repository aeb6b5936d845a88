#include "traces/format/text_input.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "sim/core/input_file.h"
#include "sim/core/refuse.h"

namespace epsim {

namespace {
constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
}

// zlib's reader passes a file without gzip's magic number through as it is.
struct ByteInput::GzFile {
  gzFile handle = nullptr;
  ~GzFile() {
    if (handle != nullptr) {
      gzclose_r(handle);
    }
  }
};

ByteInput::ByteInput() = default;
ByteInput::ByteInput(ByteInput&&) noexcept = default;
ByteInput::~ByteInput() = default;

ByteInput::ByteInput(const std::filesystem::path& file) : name_(file.string()), file_(std::make_unique<GzFile>()) {
  InputFileHandle in(file);
  file_->handle = gzdopen(in.descriptor(), "rb");
  refuse_if(file_->handle == nullptr, {name_, 0, ""}, "the file cannot be opened.");
  in.release();  // gzclose_r closes it
  gzbuffer(file_->handle, static_cast<unsigned>(kBufferBytes));
  buffer_.resize(kBufferBytes);
}

ByteInput ByteInput::from_memory(std::string name, std::string content) {
  ByteInput input;
  input.name_ = std::move(name);
  input.buffer_ = std::move(content);
  input.filled_ = input.buffer_.size();
  return input;
}

bool ByteInput::refill() {
  if (!file_) {
    return false;
  }
  const int got = gzread(file_->handle, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int code = Z_OK;
  const char* reason = gzerror(file_->handle, &code);
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    // A cut-off stream still yields its last bytes; they are refused with it, as nobody can say what is missing.
    fail(code == Z_BUF_ERROR ? "the gzip data ends too early: the file is cut off."
                             : fmt::format("the file cannot be read: {}.", reason));
  }
  position_ = 0;
  filled_ = static_cast<std::size_t>(got);
  return got > 0;
}

std::size_t ByteInput::read(char* out, std::size_t size) {
  std::size_t done = 0;
  while (done < size && (position_ < filled_ || refill())) {
    const std::size_t step = std::min(size - done, filled_ - position_);
    std::memcpy(out + done, buffer_.data() + position_, step);
    position_ += step;
    done += step;
  }
  return done;
}

bool LineReader::next(std::string_view& line) {
  text_.clear();
  int c = input_.next();
  if (c == ByteInput::kEnd) {
    return false;
  }
  check_limit(limits::kTextLines, std::int64_t{number_} + 1, place());
  ++number_;
  for (; c != '\n' && c != ByteInput::kEnd; c = input_.next()) {
    if (text_.size() == max_line_) {
      fail(fmt::format("the line is longer than {} bytes; this is not a text file of the expected kind.", max_line_));
    }
    text_.push_back(static_cast<char>(c));
  }
  if (!text_.empty() && text_.back() == '\r') {
    text_.pop_back();
  }
  if (number_ == 1 && text_.starts_with("\xEF\xBB\xBF")) {  // a byte order mark is no part of the first field
    text_.erase(0, 3);
  }
  line = text_;
  return true;
}

}  // namespace epsim
