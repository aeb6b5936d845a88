// The files in an archive, front to back, over libarchive.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "traces/format/text_input.h"

struct archive;
struct archive_entry;

namespace epsim {

// Regular files only. Memory: one buffer, whatever the archive claims. Throws InputError, naming the input, on what is
// not an archive of the kind, and on damage: tar has checksums of headers, zip of contents.
class ArchiveReader {
 public:
  enum class Kind { kTar, kZip };

  // The input unpacks gzip and verifies its checksum, which libarchive does not. It outlives the reader.
  ArchiveReader(ByteInput& input, Kind kind);
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // The name of the next file, with its folders; nothing at the end of the archive.
  std::optional<std::string> next();
  // Up to `size` bytes of the current file; fewer only at its end.
  std::size_t read(char* out, std::size_t size);
  // What is left of the current file; one of more than `most` bytes is refused.
  std::string read_all(std::int64_t most);

 private:
  static std::ptrdiff_t refill(archive*, void* reader, const void** bytes);
  void check(bool holds) const;

  ByteInput& input_;
  Kind kind_;
  std::string buffer_ = std::string(std::size_t{1} << 16, '\0');
  std::exception_ptr failed_;  // of the input
  std::unique_ptr<archive, int (*)(archive*)> archive_;
  archive_entry* entry_ = nullptr;
};

}  // namespace epsim
