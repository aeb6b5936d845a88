#include "traces/import/npy_array.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "sim/core/files.h"
#include "traces/csv.h"

namespace epsim {

namespace {

constexpr std::uint64_t kMaxEntry = std::uint64_t{1} << 30;

// `bytes` little-endian bytes from `from`.
std::uint64_t little_endian(const char* from, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) {
    value = value << 8 | static_cast<unsigned char>(from[i]);
  }
  return value;
}

// The text between `open` and `close` after `key` in the header's dictionary.
std::string between(const std::string& header, const std::string& key, char open, char close) {
  const std::size_t at = header.find("'" + key + "'");
  const std::size_t from = at == std::string::npos ? at : header.find(open, at + key.size() + 2);
  const std::size_t to = from == std::string::npos ? from : header.find(close, from + 1);
  return to == std::string::npos ? "" : header.substr(from + 1, to - from - 1);
}

// One file of a zip archive, as its central directory lists it.
struct ZipEntry {
  std::string name;
  std::uint64_t method = 0, packed = 0, size = 0, offset = 0;
};

class Zip {
 public:
  explicit Zip(const std::filesystem::path& file) : name_(file.string()), bytes_(read_file(file)) {}

  std::vector<ZipEntry> entries() const {
    constexpr std::size_t kEnd = 22;
    std::size_t end = bytes_.size() < kEnd ? std::string::npos : bytes_.rfind("PK\x05\x06", bytes_.size() - kEnd);
    require(end != std::string::npos, "it has no end of central directory; the archive is cut off or none at all");
    const std::uint64_t count = number(end + 10, 2);
    std::uint64_t at = number(end + 16, 4);
    std::vector<ZipEntry> out;
    for (std::uint64_t i = 0; i < count; ++i) {
      require(at + 46 <= bytes_.size() && bytes_.compare(at, 4, "PK\x01\x02") == 0, "its directory is damaged");
      out.push_back(entry(at));
      at += 46 + number(at + 28, 2) + number(at + 30, 2) + number(at + 32, 2);
    }
    return out;
  }

  std::string unpack(const ZipEntry& e) const {
    require(e.size <= kMaxEntry && e.packed <= kMaxEntry, "an array of it unpacks to more than 1 GiB; unpack it first");
    require(e.offset + 30 <= bytes_.size(), "its directory is damaged");
    const std::uint64_t start = e.offset + 30 + number(e.offset + 26, 2) + number(e.offset + 28, 2);
    require(start + e.packed <= bytes_.size(), "an array of it is cut off");
    if (e.method == 0) {
      return bytes_.substr(start, e.packed);
    }
    require(e.method == 8, "an array of it is packed in a way other than stored or deflated");
    std::string out(e.size, '\0');
    z_stream stream{};
    inflateInit2(&stream, -MAX_WBITS);  // zip holds deflate data without zlib's frame
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes_.data() + start));
    stream.avail_in = static_cast<uInt>(e.packed);
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    const int status = inflate(&stream, Z_FINISH);
    const bool whole = status == Z_STREAM_END && stream.total_out == e.size;
    inflateEnd(&stream);
    require(whole, "an array of it is damaged");
    return out;
  }
  void require(bool holds, const std::string& problem) const {
    if (!holds) {
      throw InputError({name_, 0, ""}, "this is no readable .npz archive: " + problem + ".");
    }
  }

 private:
  std::uint64_t number(std::uint64_t at, int bytes) const {
    require(at + static_cast<std::uint64_t>(bytes) <= bytes_.size(), "its directory is damaged");
    return little_endian(bytes_.data() + at, bytes);
  }
  ZipEntry entry(std::uint64_t at) const {
    ZipEntry e;
    e.method = number(at + 10, 2);
    e.packed = number(at + 20, 4);
    e.size = number(at + 24, 4);
    e.offset = number(at + 42, 4);
    const std::uint64_t name_size = number(at + 28, 2);
    require(at + 46 + name_size <= bytes_.size(), "its directory is damaged");
    e.name = bytes_.substr(at + 46, name_size);
    // Sizes of 2^32 - 1 stand in a Zip64 field (id 1) of the extra data instead, in this order, as far as needed.
    std::uint64_t extra = at + 46 + name_size;
    for (const std::uint64_t end = extra + number(at + 30, 2); extra + 4 <= end;) {
      std::uint64_t field = extra + 4;
      if (number(extra, 2) == 1) {
        for (std::uint64_t* value : {&e.size, &e.packed, &e.offset}) {
          if (*value == 0xffffffffU) {
            *value = number(field, 8);
            field += 8;
          }
        }
      }
      extra += 4 + number(extra + 2, 2);
    }
    return e;
  }

  std::string name_, bytes_;
};

}  // namespace

NpyArray::NpyArray(ByteInput input) : input_(std::move(input)) {
  char start[12];
  const bool whole = input_.read(start, 10) == 10 && std::memcmp(start, "\x93NUMPY", 6) == 0;
  if (!whole || (start[6] != 1 && (start[6] != 2 || input_.read(start + 10, 2) != 2))) {
    throw InputError({name(), 0, ""}, "this is no .npy file of format 1 or 2.");
  }
  const std::uint64_t size = little_endian(start + 8, start[6] == 1 ? 2 : 4);
  std::string header(std::min<std::uint64_t>(size, 65536), '\0');
  if (size > header.size() || input_.read(header.data(), header.size()) != header.size()) {
    throw InputError({name(), 0, ""}, "the header is cut off, or longer than 64 KiB.");
  }
  parse_header(header);
  buffer_.resize(std::size_t{1} << 16);
}

void NpyArray::parse_header(const std::string& header) {
  const auto require = [&](bool holds, const std::string& problem) {
    if (!holds) {
      throw InputError({name(), 0, ""}, problem);
    }
  };
  const std::string type = between(header, "descr", '\'', '\'');
  const bool known = type.size() == 3 && (type[0] == '<' || type[0] == '|') && (type[1] == 'i' || type[1] == 'u') &&
                     (type[2] == '1' || type[2] == '2' || type[2] == '4' || type[2] == '8');
  require(known, fmt::format("elements of type '{}'; whole numbers, little-endian, are read.", type.substr(0, 20)));
  width_ = type[2] - '0';
  is_signed_ = type[1] == 'i';
  require(header.find("'fortran_order': False") != std::string::npos, "the array must be in C order.");
  const std::string dims = between(header, "shape", '(', ')');
  double elements = 1;
  for (std::size_t at = 0; at < dims.size();) {
    const std::size_t end = std::min(dims.find(',', at), dims.size());
    std::string text = dims.substr(at, end - at);
    text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
    const auto value = parse_integer(text);
    require((value && *value >= 0) || text.empty(), "the header's shape cannot be read.");
    if (!text.empty()) {
      shape_.push_back(*value);
      elements *= static_cast<double>(*value);
    }
    at = end + 1;
  }
  require(!shape_.empty() && elements < 0x1p62, "the header's shape is empty or too large.");
}

std::int64_t NpyArray::size() const {
  std::int64_t out = 1;
  for (const std::int64_t n : shape_) {
    out *= n;
  }
  return out;
}

std::int64_t NpyArray::next() {
  if (at_ == filled_) {
    filled_ = input_.read(buffer_.data(), buffer_.size());
    at_ = 0;
  }
  const auto width = static_cast<std::size_t>(width_);
  if (at_ + width > filled_) {
    throw InputError({name(), 0, ""}, "the array ends before its shape says; the file is cut off.");
  }
  const std::uint64_t raw = little_endian(buffer_.data() + at_, width_);
  at_ += width;
  const int unused = 64 - 8 * width_;
  return is_signed_ ? static_cast<std::int64_t>(raw << unused) >> unused
                    : static_cast<std::int64_t>(std::min<std::uint64_t>(raw, INT64_MAX));
}

NpyArray open_npz(const std::filesystem::path& file) {
  const Zip zip(file);
  std::vector<ZipEntry> arrays = zip.entries();
  std::string names;
  for (const ZipEntry& e : arrays) {
    names += (names.empty() ? "" : ", ") + e.name.substr(0, 40);
    if (e.name == "routed_experts.npy" || arrays.size() == 1) {
      return NpyArray(ByteInput::from_memory(file.string() + ":" + e.name, zip.unpack(e)));
    }
  }
  throw InputError({file.string(), 0, ""},
                   "one array, or one named routed_experts, is needed; the archive has: " + names + ".");
}

}  // namespace epsim
