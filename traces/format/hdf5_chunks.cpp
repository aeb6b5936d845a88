#include "traces/format/hdf5_chunks.h"

#include <hdf5.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "traces/format/hdf5_handle.h"

namespace epsim::hdf5 {

namespace {

constexpr std::size_t kMostChunkBytes = std::size_t{8} << 20;

// Whether chunks are byte-shuffled, then deflated, and nothing else.
bool shuffled_and_deflated(hid_t layout) {
  const auto filter = [&](unsigned i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    return H5Pget_filter2(layout, i, &flags, &values, nullptr, 0, nullptr, &config);
  };
  return H5Pget_nfilters(layout) == 2 && filter(0) == H5Z_FILTER_SHUFFLE && filter(1) == H5Z_FILTER_DEFLATE;
}

// The first bytes of all elements stand first, then all second ones, ...
template <class T>
void unshuffle(const unsigned char* from, std::size_t elements, unsigned char* to) {
  for (std::size_t i = 0; i < elements; ++i) {
    T value = 0;
    for (std::size_t b = 0; b < sizeof(T); ++b) {
      value |= static_cast<T>(static_cast<T>(from[b * elements + i]) << (8 * b));
    }
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

libdeflate_decompressor* inflater() {
  static const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> one(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  return one.get();
}

}  // namespace

void ChunkReader::open(std::int64_t dataset, std::size_t element_bytes, const std::vector<std::uint64_t>& shape) {
  const Hdf5Handle layout(H5Dget_create_plist(dataset), H5Pclose);
  axes_ = shape.size();
  std::vector<hsize_t> chunk(axes_);
  const bool chunked = axes_ > 0 && H5Pget_layout(layout.id()) == H5D_CHUNKED &&
                       H5Pget_chunk(layout.id(), static_cast<int>(axes_), chunk.data()) == static_cast<int>(axes_);
  // Whole rows, so that a chunk's rows stand one after another as they are wanted.
  if (!chunked || !std::equal(chunk.begin() + 1, chunk.end(), shape.begin() + 1, shape.end()) ||
      !shuffled_and_deflated(layout.id())) {
    return;
  }
  element_bytes_ = element_bytes;
  double bytes = static_cast<double>(element_bytes);
  row_bytes_ = element_bytes;
  for (std::size_t i = 1; i < axes_; ++i) {
    bytes *= static_cast<double>(chunk[i]);
    row_bytes_ *= chunk[i];
  }
  if (bytes > 0 && bytes * static_cast<double>(chunk[0]) <= static_cast<double>(kMostChunkBytes)) {
    chunk_rows_ = chunk[0];
  }
}

bool ChunkReader::load(std::int64_t dataset, std::uint64_t chunk) {
  if (!rows_.empty() && held_ == chunk) {
    return true;
  }
  const std::size_t bytes = chunk_rows_ * row_bytes_, elements = bytes / element_bytes_;
  std::vector<hsize_t> at(axes_, 0);
  at[0] = chunk * chunk_rows_;
  hsize_t stored = 0;
  if (H5Dget_chunk_storage_size(dataset, at.data(), &stored) < 0 || stored == 0 || stored > 2 * kMostChunkBytes) {
    return false;
  }
  packed_.resize(stored);
  shuffled_.resize(bytes);
  rows_.clear();  // until they are whole
  std::uint32_t left_out = 0;
  if (H5Dread_chunk(dataset, H5P_DEFAULT, at.data(), &left_out, packed_.data()) < 0 || left_out != 0 ||
      libdeflate_zlib_decompress(inflater(), packed_.data(), stored, shuffled_.data(), bytes, nullptr) !=
          LIBDEFLATE_SUCCESS) {
    return false;
  }
  rows_.resize(bytes);
  held_ = chunk;
  switch (element_bytes_) {
    case 2:
      unshuffle<std::uint16_t>(shuffled_.data(), elements, rows_.data());
      break;
    case 4:
      unshuffle<std::uint32_t>(shuffled_.data(), elements, rows_.data());
      break;
    case 8:
      unshuffle<std::uint64_t>(shuffled_.data(), elements, rows_.data());
      break;
    default:
      rows_.swap(shuffled_);  // single bytes
  }
  return true;
}

bool ChunkReader::read(std::int64_t dataset, std::uint64_t first, std::uint64_t count, void* out) {
  if (chunk_rows_ == 0) {
    return false;
  }
  auto* to = static_cast<unsigned char*>(out);
  for (std::uint64_t row = first; row < first + count;) {
    const std::uint64_t chunk = row / chunk_rows_, within = row % chunk_rows_;
    const std::uint64_t rows = std::min(chunk_rows_ - within, first + count - row);
    if (!load(dataset, chunk)) {
      return false;
    }
    std::memcpy(to, rows_.data() + within * row_bytes_, rows * row_bytes_);
    to += rows * row_bytes_;
    row += rows;
  }
  return true;
}

}  // namespace epsim::hdf5
