// The part of HDF5 that the trace format uses, over the C library: handles that close themselves, and errors that say
// which dataset of which file they are about. Calls are serialised: the library's serial build knows no threads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "traces/format/hdf5_handle.h"

namespace epsim {

// Element types of datasets. Others in a file are read through the library's conversion, as kF64.
enum class Hdf5Type { kU8, kU16, kI32, kU32, kI64, kU64, kF32, kF64 };

template <class T>
constexpr Hdf5Type hdf5_type() {
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? Hdf5Type::kF32 : Hdf5Type::kF64;
  } else if constexpr (std::is_signed_v<T>) {
    return sizeof(T) == 4 ? Hdf5Type::kI32 : Hdf5Type::kI64;
  } else {
    return sizeof(T) == 1   ? Hdf5Type::kU8
           : sizeof(T) == 2 ? Hdf5Type::kU16
           : sizeof(T) == 4 ? Hdf5Type::kU32
                            : Hdf5Type::kU64;
  }
}

class Hdf5File;

// A table of any rank that grows along its first axis; rows are read and written in blocks.
class Hdf5Dataset {
 public:
  const std::string& name() const { return name_; }
  std::uint64_t rows() const { return shape_.empty() ? 0 : shape_[0]; }
  const std::vector<std::uint64_t>& shape() const { return shape_; }
  std::uint64_t row_size() const;  // elements of a row
  Hdf5Type type() const { return type_; }

  // Appends whole rows. Throws RunFailed when the disk does not take them.
  template <class T>
  void append(std::span<const T> values) {
    append_raw(values.data(), values.size(), hdf5_type<T>());
  }
  // Rows [first, first + count) into `out`; converts when T is not the stored type. Throws InputError.
  template <class T>
  void read(std::uint64_t first, std::uint64_t count, std::span<T> out) const {
    read_raw(first, count, out.data(), out.size(), hdf5_type<T>());
  }
  // An InputError about this dataset.
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  friend class Hdf5File;
  void check_size() const;
  void check_chunk() const;
  void append_raw(const void* values, std::size_t size, Hdf5Type type);
  void read_raw(std::uint64_t first, std::uint64_t count, void* out, std::size_t size, Hdf5Type type) const;

  Hdf5Handle handle_;
  std::string file_, name_;
  std::vector<std::uint64_t> shape_;
  Hdf5Type type_ = Hdf5Type::kF64;
};

class Hdf5File {
 public:
  // Throws InputError when the file is missing, cut off or no HDF5 file.
  static Hdf5File open(const std::filesystem::path& file);
  // Throws RunFailed. An existing file is replaced.
  static Hdf5File create(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  bool has(const std::string& object) const;
  std::vector<std::string> members(const std::string& group) const;  // by name

  // Datasets: chunks of about 256 KiB, byte-shuffled and deflated (HDF5's standard filters).
  Hdf5Dataset create_dataset(const std::string& name, Hdf5Type type, const std::vector<std::uint64_t>& row_shape);
  // Throws InputError when there is none, or it has not `rank` axes.
  Hdf5Dataset dataset(const std::string& name, std::size_t rank) const;

  // One column of text: UTF-8 of fixed length, padded with zeros.
  void write_texts(const std::string& name, std::span<const std::string> values);
  std::vector<std::string> read_texts(const std::string& name) const;
  bool holds_text(const std::string& name) const;

  // Attributes of the root group.
  void set_text(const std::string& name, const std::string& value);
  void set_numbers(const std::string& name, std::span<const std::int64_t> values);
  std::string text(const std::string& name) const;  // "" when there is none
  std::vector<std::int64_t> numbers(const std::string& name) const;

  // Writes everything out and closes. Throws RunFailed.
  void close();

 private:
  Hdf5Handle handle_;
  std::string name_;
};

}  // namespace epsim
