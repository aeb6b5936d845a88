#include "traces/import/zip_archive.h"

#include <zlib.h>

#include <algorithm>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "traces/format/text_input.h"

namespace epsim {

namespace {

constexpr std::uint64_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56, kHeaderSize = 30, kEntrySize = 46;
constexpr std::uint64_t kMostComment = 65535, kMostDirectory = std::uint64_t{64} << 20;
constexpr std::uint64_t kMostGunzipped = std::uint64_t{4} << 30;  // of disk; a dump of tensors takes less

std::string inflated(const std::string& packed, std::uint64_t size) {
  std::string out(size, '\0');
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);  // zip holds deflate data without zlib's frame
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool whole = inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.total_out == size;
  inflateEnd(&stream);
  return whole ? out : std::string();
}

}  // namespace

ZipArchive::ZipArchive(const std::filesystem::path& file, std::string kind)
    : name_(file.string()), kind_(std::move(kind)), in_(file, std::ios::in | std::ios::binary) {
  std::error_code failed;
  size_ = std::filesystem::file_size(file, failed);
  require(!failed && in_.good(), "it cannot be opened");
  if (size_ >= 2 && bytes(0, 2) == "\x1f\x8b") {
    gunzip(file);
  }
  read_directory();
}

// An archive is read from its end, a gzip stream from its start: it is unpacked to a file whose name is gone at once,
// so that nothing is left behind by a kill.
void ZipArchive::gunzip(const std::filesystem::path& file) {
  std::fstream copy;
  {
    const TemporaryFolder folder("epsim-gunzip-");
    copy.open(folder / "unpacked", std::ios::in | std::ios::out | std::ios::binary | std::ios::trunc);
  }
  if (!copy.is_open()) {
    throw RunFailed(name_ + ": it is gzipped, and no file can be made in the temporary folder to unpack it to.");
  }
  ByteInput packed(file);
  std::vector<char> buffer(std::size_t{1} << 16);
  size_ = 0;
  for (std::size_t got = 0; (got = packed.read(buffer.data(), buffer.size())) > 0; size_ += got) {
    require(size_ + got <= kMostGunzipped,
            "it is gzipped and unpacks to more than " + std::to_string(kMostGunzipped >> 20) + " MiB; unpack it first");
    if (!copy.write(buffer.data(), static_cast<std::streamsize>(got))) {
      throw RunFailed(name_ + ": it is gzipped, and the temporary folder is too full to unpack it to.");
    }
  }
  in_ = std::move(copy);
}

void ZipArchive::require(bool holds, const std::string& problem) const {
  if (!holds) {
    throw InputError({name_, 0, ""}, "this is no readable " + kind_ + ": " + problem + ".");
  }
}

std::string ZipArchive::bytes(std::uint64_t first, std::uint64_t count) {
  require(first <= size_ && count <= size_ - first, "its directory is damaged");
  std::string out(count, '\0');
  in_.seekg(static_cast<std::streamoff>(first));
  in_.read(out.data(), static_cast<std::streamsize>(count));
  require(in_.good(), "it cannot be read");
  return out;
}

void ZipArchive::read_directory() {
  const std::uint64_t tail_size = std::min(size_, kEndSize + kMostComment), tail_at = size_ - tail_size;
  const std::string tail = bytes(tail_at, tail_size);
  const std::size_t end = tail.size() < kEndSize ? std::string::npos : tail.rfind("PK\x05\x06", tail.size() - kEndSize);
  require(end != std::string::npos, "it has no end of central directory; the archive is cut off or none at all");
  std::uint64_t count = little_endian(tail.data() + end + 10, 2), size = little_endian(tail.data() + end + 12, 4),
                at = little_endian(tail.data() + end + 16, 4);
  // Figures that do not fit stand in a Zip64 record, which a locator right before the end points to.
  if ((count == 0xffff || size == 0xffffffff || at == 0xffffffff) && tail_at + end >= kLocatorSize) {
    const std::string locator = bytes(tail_at + end - kLocatorSize, kLocatorSize);
    require(locator.starts_with("PK\x06\x07"), "its directory is damaged");
    const std::string record = bytes(little_endian(locator.data() + 8, 8), kEnd64Size);
    require(record.starts_with("PK\x06\x06"), "its directory is damaged");
    count = little_endian(record.data() + 32, 8);
    size = little_endian(record.data() + 40, 8);
    at = little_endian(record.data() + 48, 8);
  }
  add_entries(at, size, count);
}

void ZipArchive::add_entries(std::uint64_t first, std::uint64_t size, std::uint64_t count) {
  require(size <= kMostDirectory && count <= size / kEntrySize, "its directory is damaged");
  const std::string all = bytes(first, size);
  std::uint64_t at = 0;
  const auto number = [&](std::uint64_t from, int width) {
    require(from <= all.size() && static_cast<std::uint64_t>(width) <= all.size() - from, "its directory is damaged");
    return little_endian(all.data() + from, width);
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    require(at + kEntrySize <= all.size() && all.compare(at, 4, "PK\x01\x02") == 0, "its directory is damaged");
    Entry e{.name = {},
            .method = number(at + 10, 2),
            .packed = number(at + 20, 4),
            .size = number(at + 24, 4),
            .offset = number(at + 42, 4)};
    const std::uint64_t name_size = number(at + 28, 2), extra_size = number(at + 30, 2);
    require(at + kEntrySize + name_size <= all.size(), "its directory is damaged");
    e.name = all.substr(at + kEntrySize, name_size);
    // Sizes of 2^32 - 1 stand in a Zip64 field (id 1) of the extra data instead, in this order, as far as needed.
    std::uint64_t extra = at + kEntrySize + name_size;
    for (const std::uint64_t end = extra + extra_size; extra + 4 <= end; extra += 4 + number(extra + 2, 2)) {
      std::uint64_t field = extra + 4;
      for (std::uint64_t* value : {&e.size, &e.packed, &e.offset}) {
        if (number(extra, 2) == 1 && *value == 0xffffffffU) {
          *value = number(field, 8);
          field += 8;
        }
      }
    }
    entries_.push_back(std::move(e));
    at += kEntrySize + name_size + extra_size + number(at + 32, 2);
  }
}

std::uint64_t ZipArchive::data_start(const Entry& entry) {
  const std::string header = bytes(entry.offset, kHeaderSize);
  require(header.starts_with("PK\x03\x04"), "its directory is damaged");
  return entry.offset + kHeaderSize + little_endian(header.data() + 26, 2) + little_endian(header.data() + 28, 2);
}

std::string ZipArchive::unpack(const Entry& entry, std::uint64_t most) {
  const std::string what = "its entry '" + entry.name.substr(0, 60) + "' ";
  require(entry.size <= most && entry.packed <= most,
          what + "unpacks to more than " + std::to_string(most >> 20) + " MiB; unpack it first");
  require(entry.method == 0 || entry.method == 8, what + "is packed in a way other than stored or deflated");
  const std::uint64_t start = data_start(entry);
  require(start <= size_ && entry.packed <= size_ - start, what + "is cut off");
  std::string out = bytes(start, entry.packed);
  if (entry.method == 8) {
    require(entry.size / 1040 <= entry.packed, what + "is damaged");  // deflate packs by 1032 at most
    out = inflated(out, entry.size);
  }
  require(out.size() == entry.size, what + "is damaged");
  return out;
}

void ZipArchive::read(const Entry& entry, std::uint64_t first, std::span<char> out) {
  const std::string what = "its entry '" + entry.name.substr(0, 60) + "' ";
  require(entry.method == 0 && entry.packed == entry.size, what + "is packed; only stored ones can be read in parts");
  require(first <= entry.size && out.size() <= entry.size - first, what + "is shorter than the tensors in it");
  const std::uint64_t start = data_start(entry);
  require(start <= size_ && entry.size <= size_ - start, what + "is cut off");
  in_.seekg(static_cast<std::streamoff>(start + first));
  in_.read(out.data(), static_cast<std::streamsize>(out.size()));
  require(in_.good(), "it cannot be read");
}

}  // namespace epsim
