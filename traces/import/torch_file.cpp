#include "traces/import/torch_file.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "sim/core/error.h"

namespace epsim {

namespace {

constexpr std::uint64_t kMostPickle = std::uint64_t{128} << 20;
constexpr std::string_view kPickle = "data.pkl";

double element_at(const char* from, TorchElement element) {
  const int width = width_of(element);
  const std::uint64_t bits = little_endian(from, width);
  if (element == TorchElement::kF64) {
    return std::bit_cast<double>(bits);
  }
  if (element == TorchElement::kF32) {
    return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  if (element == TorchElement::kU8 || element == TorchElement::kBool) {
    return static_cast<double>(bits);
  }
  const int unused = 64 - 8 * width;
  return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
}

}  // namespace

TorchFile::TorchFile(const std::filesystem::path& file) : name_(file.string()), archive_(file, "PyTorch file") {
  const ZipArchive::Entry* pickle = nullptr;
  for (const ZipArchive::Entry& e : archive_.entries()) {
    if (e.name == kPickle || e.name.ends_with("/data.pkl")) {
      pickle = &e;
      break;
    }
  }
  archive_.require(pickle != nullptr, "it has no data.pkl");
  folder_ = pickle->name.substr(0, pickle->name.size() - kPickle.size());
  if (const ZipArchive::Entry* order = entry("byteorder")) {
    archive_.require(archive_.unpack(*order, 64) == "little", "its byte order is not little-endian");
  }
  const std::string bytes = archive_.unpack(*pickle, kMostPickle);
  pickle_.emplace(name_ + ":" + pickle->name.substr(0, 120), bytes);
}

const ZipArchive::Entry* TorchFile::entry(const std::string& name) const {
  for (const ZipArchive::Entry& e : archive_.entries()) {
    if (e.name == folder_ + name) {
      return &e;
    }
  }
  return nullptr;
}

void TorchFile::fail(const std::string& problem) const { throw InputError({name_, 0, ""}, problem); }

void TorchFile::read(const TorchTensor& tensor, const Part& part, std::vector<double>& out) {
  const ZipArchive::Entry* storage = entry("data/" + tensor.storage);
  if (storage == nullptr) {
    fail(fmt::format("the storage data/{} of a tensor is missing.", tensor.storage.substr(0, 60)));
  }
  out.clear();
  if (part.rows == 0 || part.columns == 0) {
    return;
  }
  // The pickle's check of shape and stride bounds these: nothing overflows, nothing is larger than the storage.
  const auto width = static_cast<std::uint64_t>(width_of(tensor.element));
  const std::int64_t span = (part.columns - 1) * part.column_stride + 1;
  for (std::int64_t r = 0; r < part.rows; ++r) {
    raw_.resize(static_cast<std::size_t>(span) * width);
    archive_.read(*storage, static_cast<std::uint64_t>(part.first + r * part.row_stride) * width, raw_);
    for (std::int64_t c = 0; c < part.columns; ++c) {
      const double x =
          element_at(raw_.data() + static_cast<std::uint64_t>(c * part.column_stride) * width, tensor.element);
      if (x >= 0x1p53 || x <= -0x1p53) {
        fail(fmt::format("a number of storage data/{} is above 2^53.", tensor.storage.substr(0, 60)));
      }
      out.push_back(x);
    }
  }
}

}  // namespace epsim
