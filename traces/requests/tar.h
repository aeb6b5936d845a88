// Tar archives, read front to back (POSIX ustar and pax, GNU long names).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "traces/text_input.h"

namespace epsim {

// One regular file of the archive.
struct TarEntry {
  std::string name;  // with its folders
  std::uint64_t size = 0;
};

class TarReader {
 public:
  // The most bytes of one file that read() takes into memory.
  static constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 27;

  explicit TarReader(ByteInput& input) : input_(input) {}

  // The next regular file; folders, links and the like are passed over. Nothing at the end of the archive. Throws
  // InputError on a damaged or cut-off archive.
  std::optional<TarEntry> next();
  // All bytes of the current file; at most once per file. Files that are not read are passed over.
  std::string read();

 private:
  static constexpr std::size_t kBlock = 512;

  bool read_block(char* block);
  void skip(std::uint64_t bytes);
  std::string take(std::uint64_t bytes, std::uint64_t limit);

  ByteInput& input_;
  std::uint64_t left_ = 0;  // bytes of the current file that were not read
  std::uint64_t padding_ = 0;
  std::string long_name_;  // of the entry that follows, when an extended header gave one
};

}  // namespace epsim
