// NumPy's array files: one array of whole numbers, read in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "traces/format/text_input.h"

namespace epsim {

// A .npy stream: header read, elements follow. Little-endian whole numbers of 1, 2, 4 or 8 bytes, in C order.
class NpyArray {
 public:
  explicit NpyArray(ByteInput input);
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t size() const;  // elements
  // The next element. Throws InputError past the end of the file.
  std::int64_t next();
  const std::string& name() const { return input_.name(); }

 private:
  void parse_header(const std::string& header);
  ByteInput input_;
  std::vector<std::int64_t> shape_;
  int width_ = 0;  // bytes of an element
  bool is_signed_ = false;
  std::string buffer_;
  std::size_t at_ = 0, filled_ = 0;
};

// The one array of an .npz archive, or its array `routed_experts`. Entries are stored or deflated; one that unpacks to
// more than 1 GiB is refused, as it is held in memory.
NpyArray open_npz(const std::filesystem::path& file);

}  // namespace epsim
