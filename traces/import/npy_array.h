// NumPy's array files: one array of whole numbers, read in order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace epsim {

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

// The array of a .npy file, or the one array of an .npz archive, or its array `routed_experts`; gzipped or not.
NpyArray open_npy(const std::filesystem::path& file);
bool is_npz(const std::filesystem::path& file);  // by its name

}  // namespace epsim
