// Rows of a dataset straight from its chunks: the library's own way, zlib's inflate among it, is half as fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace epsim::hdf5 {

// Calls need the library's lock. Whatever is not as this program writes it is left to the library.
class ChunkReader {
 public:
  // Takes note of how the dataset lies in its file.
  void open(std::int64_t dataset, std::size_t element_bytes, const std::vector<std::uint64_t>& shape);
  // Rows [first, first + count) as they are stored. False, with `out` undefined, when they must be read through the
  // library: other filters or shapes of chunks, parts that were never written, damage (which it then names).
  bool read(std::int64_t dataset, std::uint64_t first, std::uint64_t count, void* out);

 private:
  bool load(std::int64_t dataset, std::uint64_t chunk);

  std::uint64_t chunk_rows_ = 0;  // 0: not for us
  std::size_t row_bytes_ = 0, element_bytes_ = 0, axes_ = 0;
  std::uint64_t held_ = 0;             // chunk in rows_, when that is filled
  std::vector<unsigned char> rows_;    // the chunk's rows
  std::vector<unsigned char> packed_;  // scratch
  std::vector<unsigned char> shuffled_;
};

}  // namespace epsim::hdf5
