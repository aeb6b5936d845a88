#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/refuse.h"
#include "traces/format/archive_reader.h"
#include "traces/format/csv.h"
#include "traces/import/formats.h"
#include "traces/import/token_array.h"

namespace epsim {
namespace {

// A .npy stream: header read, elements follow. Little-endian whole numbers of 1, 2, 4 or 8 bytes, in C order.
class NpyArray {
 public:
  // Up to `size` bytes into `out`; fewer only at the end.
  using Read = std::function<std::size_t(char* out, std::size_t size)>;

  // `name` stands for the file in messages. Throws InputError.
  NpyArray(std::string name, Read read);
  const std::vector<std::int64_t>& shape() const { return shape_; }
  // The next element. Throws InputError past the end of the file.
  std::int64_t next();
  const std::string& name() const { return name_; }

 private:
  void parse_header(const std::string& header);
  void require(bool holds, const std::string& problem) const;

  std::string name_;
  Read read_;
  std::vector<std::int64_t> shape_;
  int width_ = 0;  // bytes of an element
  bool is_signed_ = false;
  std::string buffer_;
  std::size_t at_ = 0, filled_ = 0;
};

bool is_npz(const std::filesystem::path& file);  // by its name

// The text between `open` and `close` after `key` in the header's dictionary.
std::string between(const std::string& header, const std::string& key, char open, char close) {
  const std::size_t at = header.find("'" + key + "'");
  const std::size_t from = at == std::string::npos ? at : header.find(open, at + key.size() + 2);
  const std::size_t to = from == std::string::npos ? from : header.find(close, from + 1);
  return to == std::string::npos ? "" : header.substr(from + 1, to - from - 1);
}

NpyArray::NpyArray(std::string name, Read read) : name_(std::move(name)), read_(std::move(read)) {
  char start[12];
  const bool whole = read_(start, 10) == 10 && std::memcmp(start, "\x93NUMPY", 6) == 0;
  require(whole && (start[6] == 1 || (start[6] == 2 && read_(start + 10, 2) == 2)),
          "this is not a .npy file of format 1 or 2.");
  const std::uint64_t size = little_endian(start + 8, start[6] == 1 ? 2 : 4);
  std::string header(std::min<std::uint64_t>(size, 65536), '\0');
  require(size <= header.size() && read_(header.data(), header.size()) == header.size(),
          "the header is cut off, or longer than 64 KiB.");
  parse_header(header);
  buffer_.resize(std::size_t{1} << 16);
}

void NpyArray::require(bool holds, const std::string& problem) const {
  if (!holds) {
    throw InputError({name_, 0, ""}, problem);
  }
}

void NpyArray::parse_header(const std::string& header) {
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

std::int64_t NpyArray::next() {
  if (at_ == filled_) {
    filled_ = read_(buffer_.data(), buffer_.size());
    at_ = 0;
  }
  const auto width = static_cast<std::size_t>(width_);
  require(at_ + width <= filled_, "the array ends before its shape says; the file is cut off.");
  const std::uint64_t raw = little_endian(buffer_.data() + at_, width_);
  at_ += width;
  const int unused = 64 - 8 * width_;
  return is_signed_ ? static_cast<std::int64_t>(raw << unused) >> unused
                    : static_cast<std::int64_t>(std::min<std::uint64_t>(raw, INT64_MAX));
}

bool is_npz(const std::filesystem::path& file) {
  return (file.extension() == ".gz" ? file.stem() : file).extension() == ".npz";
}

// The files of an archive, front to back.
struct Npz {
  explicit Npz(const std::filesystem::path& file) : input(file), archive(input, ArchiveReader::Kind::kZip) {}
  ByteInput input;
  ArchiveReader archive;
};

std::string array_of(const std::filesystem::path& file) {
  Npz npz(file);
  std::string name, all;
  int count = 0;
  for (std::optional<std::string> next; (next = npz.archive.next()).has_value(); ++count) {
    name = *next;
    if (name == "routed_experts.npy") {
      return name;
    }
    all += all.size() > 400 ? "" : (all.empty() ? "" : ", ") + name.substr(0, 40);
  }
  if (count != 1) {
    npz.input.fail("one array, or one named routed_experts, is needed; the archive has: " + all + ".");
  }
  return name;
}

// The array of a .npy file, or the one array of an .npz archive, or its array `routed_experts`; gzipped or not.
NpyArray open_npy(const std::filesystem::path& file) {
  if (!is_npz(file)) {
    const auto input = std::make_shared<ByteInput>(file);
    return NpyArray(file.string(), [input](char* out, std::size_t size) { return input->read(out, size); });
  }
  const std::string wanted = array_of(file);
  const auto npz = std::make_shared<Npz>(file);
  for (auto name = npz->archive.next(); name != wanted; name = npz->archive.next()) {
    EPSIM_CHECK(name.has_value(), "the archive still has the array that was chosen");
  }
  return NpyArray(file.string() + ":" + wanted,
                  [npz](char* out, std::size_t size) { return npz->archive.read(out, size); });
}

}  // namespace

bool recognises_numpy(const std::filesystem::path& file, std::string_view head) {
  return head.starts_with("\x93NUMPY") || (head.starts_with("PK") && is_npz(file));
}

void import_numpy(const std::filesystem::path& file, const ImportOptions& options, TraceSink& sink) {
  NpyArray array = open_npy(file);
  const std::vector<std::int64_t>& shape = array.shape();
  const bool has_layers = shape.size() == 3;
  refuse_if((!has_layers && shape.size() != 2) || shape.back() < 1 || shape.back() > 65536 || shape[1] > 65536 ||
                shape[0] < 1 || shape[0] > INT32_MAX,
            {array.name(), 0, ""}, "the shape must be [token][layer][k] or [token][k], with at least a token.");
  std::vector<int> layers(has_layers ? static_cast<std::size_t>(shape[1]) : 1);
  std::iota(layers.begin(), layers.end(), 0);
  const int k = static_cast<int>(shape.back());
  const TraceInfo info = imported_info(file, "numpy", options, layers, 0, k);
  refuse_if(info.top_k != k, {array.name(), 0, "top_k"},
            fmt::format("a choice has {} experts, not {}.", k, info.top_k));
  const auto next = [&, left = shape[0]](std::span<std::int64_t> ids) mutable {
    std::generate(ids.begin(), left > 0 ? ids.end() : ids.begin(), [&] { return array.next(); });
    return left-- > 0;
  };
  import_token_array({array.name(), info, next, options.sequences}, sink);
}

}  // namespace epsim
