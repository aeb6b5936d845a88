#include "traces/import/npy_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "traces/format/csv.h"
#include "traces/import/zip_archive.h"

namespace epsim {

namespace {

constexpr std::uint64_t kMaxEntry = std::uint64_t{1} << 30;

// The text between `open` and `close` after `key` in the header's dictionary.
std::string between(const std::string& header, const std::string& key, char open, char close) {
  const std::size_t at = header.find("'" + key + "'");
  const std::size_t from = at == std::string::npos ? at : header.find(open, at + key.size() + 2);
  const std::size_t to = from == std::string::npos ? from : header.find(close, from + 1);
  return to == std::string::npos ? "" : header.substr(from + 1, to - from - 1);
}

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
  ZipArchive zip(file, ".npz archive");
  std::string names;
  for (const ZipArchive::Entry& e : zip.entries()) {
    names += (names.empty() ? "" : ", ") + e.name.substr(0, 40);
    if (e.name == "routed_experts.npy" || zip.entries().size() == 1) {
      return NpyArray(ByteInput::from_memory(file.string() + ":" + e.name, zip.unpack(e, kMaxEntry)));
    }
  }
  throw InputError({file.string(), 0, ""},
                   "one array, or one named routed_experts, is needed; the archive has: " + names.substr(0, 400) + ".");
}

}  // namespace epsim
