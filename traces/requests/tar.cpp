#include "traces/requests/tar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "traces/csv.h"

namespace epsim {

namespace {

// Fields of a header block (POSIX.1-1988 ustar): offset and length.
struct Field {
  std::size_t offset, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 5}, kPrefix{345, 155};

std::string_view field(const char* block, Field f) {
  const std::string_view all(block + f.offset, f.length);
  return all.substr(0, all.find('\0'));
}

// Octal digits with blanks around them; nothing when it is something else or does not fit.
std::optional<std::uint64_t> octal(std::string_view text) {
  while (!text.empty() && text.front() == ' ') {
    text.remove_prefix(1);
  }
  while (!text.empty() && text.back() == ' ') {
    text.remove_suffix(1);
  }
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '7' || value >> 60 != 0) {
      return std::nullopt;
    }
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return text.empty() ? std::nullopt : std::optional(value);
}

// The sum of the header's bytes, its own field counted as blanks.
std::uint64_t checksum(const char* block, std::size_t size) {
  std::uint64_t sum = 8 * ' ';
  for (std::size_t i = 0; i < size; ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.length;
    sum += own ? 0 : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

std::uint64_t padding_of(std::uint64_t size) { return (512 - size % 512) % 512; }

// The path of a pax header: records "LENGTH key=value\n". Empty when it names none.
std::string pax_path(std::string_view records) {
  std::string path;
  while (!records.empty()) {
    const std::size_t blank = records.find(' ');
    const std::optional<std::int64_t> length = parse_integer(records.substr(0, std::min(blank, records.size())));
    if (!length || *length <= static_cast<std::int64_t>(blank) + 1 ||
        *length > static_cast<std::int64_t>(records.size())) {
      return path;  // not one of these records: nothing more can be known of it
    }
    std::string_view record = records.substr(blank + 1, static_cast<std::size_t>(*length) - blank - 2);
    if (record.starts_with("path=")) {
      path = record.substr(5);
    }
    records.remove_prefix(static_cast<std::size_t>(*length));
  }
  return path;
}

}  // namespace

// False where the archive ends.
bool TarReader::read_block(char* block) {
  const std::size_t got = input_.read(block, kBlock);
  if (got != 0 && got != kBlock) {
    input_.fail("the archive is cut off.");
  }
  return got == kBlock;
}

void TarReader::skip(std::uint64_t bytes) {
  std::array<char, 4096> scratch;
  while (bytes > 0) {
    const std::size_t step = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, scratch.size()));
    if (input_.read(scratch.data(), step) != step) {
      input_.fail("the archive is cut off.");
    }
    bytes -= step;
  }
}

// The bytes of the current entry and what pads them. They are taken piece by piece: the header may claim any size.
std::string TarReader::take(std::uint64_t bytes, std::uint64_t limit) {
  if (bytes > limit) {
    input_.fail(fmt::format("a file of {} bytes in the archive; at most {} are allowed.", bytes, limit));
  }
  std::string out;
  while (out.size() < bytes) {
    const std::size_t done = out.size();
    out.resize(done + static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, 1 << 16)));
    if (input_.read(out.data() + done, out.size() - done) != out.size() - done) {
      input_.fail("the archive is cut off.");
    }
  }
  return out;
}

std::string TarReader::read() {
  std::string out = take(left_, kMaxFile);
  left_ = 0;
  return out;
}

std::optional<TarEntry> TarReader::next() {
  std::array<char, kBlock> block;
  for (;;) {
    skip(left_);
    skip(padding_);
    left_ = padding_ = 0;
    if (!read_block(block.data()) || std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) {
      return std::nullopt;
    }
    const auto size = octal(field(block.data(), kSize)), sum = octal(field(block.data(), kChecksum));
    if (!sum || *sum != checksum(block.data(), kBlock) || !size) {
      input_.fail("this is no tar archive, or a damaged one: a header's checksum or size is wrong.");
    }
    left_ = *size;
    padding_ = padding_of(*size);
    const char type = block[kType.offset];
    if (type == 'L' || type == 'x') {  // GNU's long name, pax's records: both are about the entry that follows
      const std::string about = take(left_, 1 << 20);
      left_ = 0;
      long_name_ = type == 'L' ? about.substr(0, about.find('\0')) : pax_path(about);
      continue;
    }
    TarEntry entry{std::exchange(long_name_, ""), *size};
    if (entry.name.empty()) {
      const bool ustar = field(block.data(), kMagic) == "ustar";
      const std::string prefix(ustar ? field(block.data(), kPrefix) : "");
      entry.name = (prefix.empty() ? "" : prefix + "/") + std::string(field(block.data(), kName));
    }
    if (type == '0' || type == '\0') {
      return entry;
    }
  }
}

}  // namespace epsim
