#include "traces/format/archive_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>

namespace epsim {

ArchiveReader::ArchiveReader(ByteInput& input, Kind kind)
    : input_(input), kind_(kind), archive_(archive_read_new(), archive_read_free) {
  if (kind == Kind::kTar) {
    archive_read_support_format_tar(archive_.get());
    archive_read_support_format_empty(archive_.get());
  } else {
    archive_read_support_format_zip_streamable(archive_.get());
  }
  check(archive_read_open(archive_.get(), this, nullptr, refill, nullptr) == ARCHIVE_OK);
}

std::optional<std::string> ArchiveReader::next() {
  for (int status; (status = archive_read_next_header(archive_.get(), &entry_)) != ARCHIVE_EOF;) {
    check(status == ARCHIVE_OK || status == ARCHIVE_WARN);
    if (archive_entry_filetype(entry_) == AE_IFREG && archive_entry_hardlink(entry_) == nullptr) {
      const char* name = archive_entry_pathname(entry_);
      if (name == nullptr) {
        input_.fail("the name of a file in the archive cannot be read.");
      }
      return name;
    }
  }
  check(true);
  return std::nullopt;
}

std::size_t ArchiveReader::read(char* out, std::size_t size) {
  std::size_t done = 0;
  for (la_ssize_t got = 1; got > 0 && done < size; done += static_cast<std::size_t>(got)) {
    got = archive_read_data(archive_.get(), out + done, size - done);
    check(got >= 0);
  }
  return done;
}

std::string ArchiveReader::read_all(std::int64_t most) {
  const auto limit = [&](std::int64_t size) {
    if (size > most) {
      input_.fail(fmt::format("a file of {} bytes in the archive; at most {} are allowed.", size, most));
    }
  };
  limit(archive_entry_size(entry_));  // 0 where the header does not say
  std::string out;
  for (std::size_t got = buffer_.size(); got == buffer_.size();) {  // piece by piece: a header may state any size
    const std::size_t done = out.size();
    out.resize(done + buffer_.size());
    got = read(out.data() + done, buffer_.size());
    out.resize(done + got);
    limit(static_cast<std::int64_t>(out.size()));
  }
  return out;
}

// No exception may pass through libarchive: check() throws it again.
std::ptrdiff_t ArchiveReader::refill(archive*, void* reader, const void** bytes) {
  auto& self = *static_cast<ArchiveReader*>(reader);
  *bytes = self.buffer_.data();
  try {
    return static_cast<std::ptrdiff_t>(self.input_.read(self.buffer_.data(), self.buffer_.size()));
  } catch (...) {
    self.failed_ = std::current_exception();
    return -1;
  }
}

void ArchiveReader::check(bool holds) const {
  if (failed_) {
    std::rethrow_exception(failed_);
  }
  if (!holds) {
    const char* reason = archive_error_string(archive_.get());
    input_.fail(fmt::format("this is not a {} archive, or it is damaged or cut off: {}.",
                            kind_ == Kind::kTar ? "tar" : "zip", reason == nullptr ? "no reason given" : reason));
  }
}

}  // namespace epsim
