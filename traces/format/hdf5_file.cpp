#include "traces/format/hdf5_file.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <numeric>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "sim/core/input_file.h"

namespace epsim {

namespace {

using namespace hdf5;

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 18;  // a chunk and its filters' copies stay in a core's cache
constexpr Limit kLargestChunk{"bytes in a chunk", std::int64_t{128} << 20};
constexpr unsigned kDeflateLevel = 1;  // counts hardly shrink further at higher levels

hid_t native(Hdf5Type type) {
  const hid_t types[] = {H5T_NATIVE_UINT8, H5T_NATIVE_UINT16, H5T_NATIVE_INT32, H5T_NATIVE_UINT32,
                         H5T_NATIVE_INT64, H5T_NATIVE_UINT64, H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE};
  return types[static_cast<int>(type)];  // in the order of Hdf5Type
}

bool holds_as_is(hid_t dataset, Hdf5Type ours) {
  const Hdf5Handle type(H5Dget_type(dataset), H5Tclose);
  return H5Tequal(type.id(), native(ours)) > 0;
}

// The type of ours that holds a file's element type as it is; kF64 when none does.
Hdf5Type stored_type(hid_t dataset) {
  for (const Hdf5Type t : {Hdf5Type::kU8, Hdf5Type::kU16, Hdf5Type::kI32, Hdf5Type::kU32, Hdf5Type::kI64,
                           Hdf5Type::kU64, Hdf5Type::kF32, Hdf5Type::kF64}) {
    if (holds_as_is(dataset, t)) {
      return t;
    }
  }
  return Hdf5Type::kF64;
}

}  // namespace

std::uint64_t Hdf5Dataset::row_size() const {
  return std::accumulate(shape_.begin() + 1, shape_.end(), std::uint64_t{1}, std::multiplies<>());
}

// Of a data set that a file claims to have: a row is within the limit, the whole counts in 63 bits, and the file holds
// more than a hint of it. Deflate packs 1032 to 1; a data set without storage reads as zeros without end.
void Hdf5Dataset::check_size() const {
  constexpr std::int64_t kPackedAtMost = 4096, kNegligible = std::int64_t{16} << 20;
  const auto whole = [](std::uint64_t n) { return static_cast<std::int64_t>(std::min<std::uint64_t>(n, INT64_MAX)); };
  std::int64_t row = 1;
  for (std::size_t axis = 1; axis < shape_.size(); ++axis) {
    row = product_of({row, whole(shape_[axis])});
  }
  check_limit(limits::kRowValues, row, {file_, 0, name_});
  check_chunk();
  const std::int64_t bytes = product_of({row, whole(rows()), 8});
  const std::int64_t stored = whole(H5Dget_storage_size(handle_.id()));
  if (bytes == INT64_MAX || bytes > std::max(kNegligible, product_of({stored, kPackedAtMost}))) {
    fail(fmt::format("this claims {} rows of {} values and holds {} bytes; it is sparse, or damaged.", rows(), row,
                     stored));
  }
  // The library takes memory for what is stored before it finds that the file ends.
  const Hdf5Handle file(H5Iget_file_id(handle_.id()), H5Fclose);
  hsize_t all = 0;
  if (H5Fget_filesize(file.id(), &all) >= 0 && stored > whole(all)) {
    fail(fmt::format("this claims {} stored bytes of a file of {}; the file is damaged.", stored, all));
  }
}

// The library reads chunks whole, and unpacks them whole.
void Hdf5Dataset::check_chunk() const {
  const Hdf5Handle layout(H5Dget_create_plist(handle_.id()), H5Pclose);
  const Hdf5Handle type(H5Dget_type(handle_.id()), H5Tclose);
  std::vector<hsize_t> chunk(shape_.size(), 1);
  if (H5Pget_layout(layout.id()) == H5D_CHUNKED &&
      H5Pget_chunk(layout.id(), static_cast<int>(chunk.size()), chunk.data()) > 0) {
    auto bytes = static_cast<std::int64_t>(H5Tget_size(type.id()));
    for (const hsize_t n : chunk) {
      bytes = product_of({bytes, static_cast<std::int64_t>(std::min<hsize_t>(n, INT64_MAX))});
    }
    check_limit(kLargestChunk, bytes, {file_, 0, name_});
  }
}

void Hdf5Dataset::fail(const std::string& problem) const { refuse(file_, name_, problem); }

void Hdf5Dataset::append_raw(const void* values, std::size_t size, Hdf5Type type) {
  const Locked lock(library());
  const std::uint64_t width = row_size();
  EPSIM_CHECK(width > 0 && size % width == 0, "whole rows are appended");
  std::vector<hsize_t> start(shape_.size(), 0), count(shape_.begin(), shape_.end());
  start[0] = shape_[0];
  count[0] = size / width;
  shape_[0] += count[0];
  const std::vector<hsize_t> grown(shape_.begin(), shape_.end());
  if (H5Dset_extent(handle_.id(), grown.data()) < 0) {
    write_failed(file_, name_);
  }
  const Hdf5Handle there(H5Dget_space(handle_.id()), H5Sclose);
  const Hdf5Handle here(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
  H5Sselect_hyperslab(there.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
  if (count[0] > 0 && H5Dwrite(handle_.id(), native(type), here.id(), there.id(), H5P_DEFAULT, values) < 0) {
    write_failed(file_, name_);
  }
}

void Hdf5Dataset::read_raw(std::uint64_t first, std::uint64_t rows_wanted, void* out, std::size_t size,
                           Hdf5Type type) const {
  EPSIM_CHECK(first + rows_wanted <= rows() && rows_wanted * row_size() == size, "rows that exist are read");
  if (rows_wanted == 0) {
    return;
  }
  const Locked lock(library());
  std::vector<hsize_t> start(shape_.size(), 0), count(shape_.begin(), shape_.end());
  start[0] = first;
  count[0] = rows_wanted;
  const Hdf5Handle there(H5Dget_space(handle_.id()), H5Sclose);
  const Hdf5Handle here(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
  H5Sselect_hyperslab(there.id(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
  if (H5Dread(handle_.id(), native(type), here.id(), there.id(), H5P_DEFAULT, out) < 0) {
    fail(fmt::format("rows {} to {} cannot be read ({}); the file is damaged.", first, first + rows_wanted, reason()));
  }
}

Hdf5File Hdf5File::open(const std::filesystem::path& file) {
  const Locked lock(library());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  Hdf5File out;
  out.name_ = file.string();
  check_input_file(file);
  const hid_t id = H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0) {
    refuse(out.name_, "", fmt::format("this is not an HDF5 file, or it is cut off or damaged: {}.", reason()));
  }
  out.handle_ = {id, H5Fclose};
  return out;
}

Hdf5File Hdf5File::create(const std::filesystem::path& file) {
  const Locked lock(library());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  Hdf5File out;
  out.name_ = file.string();
  // The formats of HDF5 1.8 and later keep checksums of their metadata.
  const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_LATEST);
  const Hdf5Handle root = hdf5::timeless(H5P_FILE_CREATE);
  const hid_t id = H5Fcreate(file.c_str(), H5F_ACC_TRUNC, root.id(), access.id());
  if (id < 0) {
    throw RunFailed(fmt::format("{}: the file cannot be created: {}.", out.name_, reason()));
  }
  out.handle_ = {id, H5Fclose};
  return out;
}

bool Hdf5File::has(const std::string& object) const {
  const Locked lock(library());
  for (std::size_t slash = object.find('/', 1); slash != std::string::npos; slash = object.find('/', slash + 1)) {
    if (H5Lexists(handle_.id(), object.substr(0, slash).c_str(), H5P_DEFAULT) <= 0) {
      return false;
    }
  }
  return H5Lexists(handle_.id(), object.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> Hdf5File::members(const std::string& group) const {
  const Locked lock(library());
  std::vector<std::string> out;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->emplace_back(name);
    return 0;
  };
  const Hdf5Handle g = owned(H5Gopen2(handle_.id(), group.c_str(), H5P_DEFAULT), H5Gclose, name_, group);
  H5Literate(g.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &out);
  return out;
}

Hdf5Dataset Hdf5File::create_dataset(const std::string& name, Hdf5Type type,
                                     const std::vector<std::uint64_t>& row_shape) {
  const Locked lock(library());
  std::vector<hsize_t> dims{0}, most{H5S_UNLIMITED}, chunk{1};
  dims.insert(dims.end(), row_shape.begin(), row_shape.end());
  most.insert(most.end(), row_shape.begin(), row_shape.end());
  chunk.insert(chunk.end(), row_shape.begin(), row_shape.end());
  const std::uint64_t row_bytes =
      H5Tget_size(native(type)) * std::accumulate(row_shape.begin(), row_shape.end(), hsize_t{1}, std::multiplies<>());
  chunk[0] = std::max<hsize_t>(1, kChunkBytes / std::max<std::uint64_t>(1, row_bytes));
  const Hdf5Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), most.data()), H5Sclose);
  const Hdf5Handle layout = hdf5::timeless(H5P_DATASET_CREATE);
  H5Pset_chunk(layout.id(), static_cast<int>(chunk.size()), chunk.data());
  H5Pset_shuffle(layout.id());
  H5Pset_deflate(layout.id(), kDeflateLevel);
  hdf5::make_parents(handle_.id(), name);
  const hid_t id =
      H5Dcreate2(handle_.id(), name.c_str(), native(type), space.id(), H5P_DEFAULT, layout.id(), H5P_DEFAULT);
  if (id < 0) {
    write_failed(name_, name);
  }
  Hdf5Dataset out;
  out.handle_ = {id, H5Dclose};
  out.file_ = name_;
  out.name_ = name;
  out.shape_.assign(dims.begin(), dims.end());
  out.type_ = type;
  return out;
}

Hdf5Dataset Hdf5File::dataset(const std::string& name, std::size_t rank) const {
  const Locked lock(library());
  if (!has(name)) {
    refuse(name_, name, "the file has no such dataset.");
  }
  Hdf5Dataset out;
  out.handle_ = owned(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT), H5Dclose, name_, name);
  out.file_ = name_;
  out.name_ = name;
  const Hdf5Handle space = owned(H5Dget_space(out.handle_.id()), H5Sclose, name_, name);
  out.shape_ = extent(space.id());
  out.type_ = stored_type(out.handle_.id());
  if (out.shape_.size() != rank) {
    refuse(name_, name, fmt::format("this has {} axes where {} are expected.", out.shape_.size(), rank));
  }
  out.check_size();
  return out;
}

void Hdf5File::set_numbers(const std::string& name, std::span<const std::int64_t> values) {
  const Locked lock(library());
  const hsize_t size = values.size();
  const Hdf5Handle space(size == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &size, nullptr), H5Sclose);
  const Hdf5Handle attribute(
      H5Acreate2(handle_.id(), name.c_str(), H5T_NATIVE_INT64, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (H5Awrite(attribute.id(), H5T_NATIVE_INT64, values.data()) < 0) {
    write_failed(name_, name);
  }
}

std::vector<std::int64_t> Hdf5File::numbers(const std::string& name) const {
  const Locked lock(library());
  if (H5Aexists(handle_.id(), name.c_str()) <= 0) {
    return {};
  }
  const Hdf5Handle attribute = owned(H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT), H5Aclose, name_, name);
  const Hdf5Handle space(H5Aget_space(attribute.id()), H5Sclose);
  const hssize_t size = H5Sget_simple_extent_npoints(space.id());
  if (size < 0 || size > 65536) {
    refuse(name_, name, "this attribute holds more than 65536 numbers.");
  }
  std::vector<std::int64_t> out(size);
  if (!out.empty() && H5Aread(attribute.id(), H5T_NATIVE_INT64, out.data()) < 0) {
    refuse(name_, name, fmt::format("this attribute is no number, or cannot be read: {}.", reason()));
  }
  return out;
}

void Hdf5File::close() {
  const Locked lock(library());
  const bool written = H5Fflush(handle_.id(), H5F_SCOPE_GLOBAL) >= 0;
  handle_ = Hdf5Handle();
  if (!written) {
    write_failed(name_, "the file");
  }
}

}  // namespace epsim
