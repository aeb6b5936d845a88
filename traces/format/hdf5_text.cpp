// Text in HDF5 files.
#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <optional>

#include "sim/core/refuse.h"
#include "traces/format/hdf5_file.h"

namespace epsim {

namespace {

using namespace hdf5;

constexpr std::uint64_t kMaxColumnRows = std::uint64_t{1} << 27;  // of text and number columns, which are read whole
// UTF-8 of `size` bytes, padded with zeros.
Hdf5Handle text_type(std::size_t size) {
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), size);
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;  // of one column

// Equal-sized, zero-padded pieces for texts.
std::string padded(std::span<const std::string> values, std::size_t size) {
  std::string out;
  for (const std::string& value : values) {
    out.append(value).append(size - value.size(), '\0');
  }
  return out;
}
std::size_t longest(std::span<const std::string> values) {
  std::size_t out = 1;
  for (const std::string& value : values) {
    out = std::max(out, value.size());
  }
  return out;
}

// Text of variable length lies in heaps that no checksum covers. The library trusts the lengths in them and writes
// beyond its buffers where a file is damaged (H5HG_read of HDF5 1.10), so it is not asked for such text.
void require_fixed_length(hid_t stored, const std::string& file, const std::string& object) {
  if (H5Tis_variable_str(stored) > 0) {
    refuse(file, object,
           "text of variable length is not supported; write it at a fixed length (h5py: numpy.bytes_(text) for an "
           "attribute, dtype 'S' for a column).");
  }
}

// Reads `count` texts with `read`, which takes a memory type and a buffer; nothing when it fails.
template <class Read>
std::optional<std::vector<std::string>> read_texts_as(hid_t stored, std::size_t count, Read read) {
  std::vector<std::string> out;
  const std::size_t size = H5Tget_size(stored);
  if (H5Tget_class(stored) != H5T_STRING || size == 0 || count > kMaxTextBytes / size) {
    return std::nullopt;
  }
  std::string raw(size * count, '\0');
  const Hdf5Handle type = text_type(size);
  H5Tset_cset(type.id(), H5Tget_cset(stored));  // the library converts no character sets; ASCII is UTF-8 as it is
  if (read(type.id(), raw.data()) < 0) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = raw.substr(i * size, size);
    out.push_back(text.substr(0, text.find('\0')));
  }
  return out;
}

}  // namespace

void Hdf5File::write_texts(const std::string& name, std::span<const std::string> values) {
  const Locked lock(library());
  const std::size_t size = longest(values);
  refuse_if(values.size() > kMaxTextBytes / size, {name_, 0, name},
            "its texts take more than 1 GiB, each at the length of the longest.");
  const std::string raw = padded(values, size);
  const hsize_t count = values.size();
  const Hdf5Handle type = text_type(size);
  const Hdf5Handle space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  const Hdf5Handle layout = hdf5::timeless(H5P_DATASET_CREATE);
  hdf5::make_parents(handle_.id(), name);
  const Hdf5Handle set(
      H5Dcreate2(handle_.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, layout.id(), H5P_DEFAULT), H5Dclose);
  if (set.id() < 0 || (count > 0 && H5Dwrite(set.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, raw.data()) < 0)) {
    write_failed(name_, name);
  }
}

bool Hdf5File::holds_text(const std::string& name) const {
  const Locked lock(library());
  const Hdf5Handle set = owned(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT), H5Dclose, name_, name);
  const Hdf5Handle type(H5Dget_type(set.id()), H5Tclose);
  return H5Tget_class(type.id()) == H5T_STRING;
}

std::vector<std::string> Hdf5File::read_texts(const std::string& name) const {
  const Locked lock(library());
  const Hdf5Handle set = owned(H5Dopen2(handle_.id(), name.c_str(), H5P_DEFAULT), H5Dclose, name_, name);
  const Hdf5Handle space = owned(H5Dget_space(set.id()), H5Sclose, name_, name);
  const Hdf5Handle stored(H5Dget_type(set.id()), H5Tclose);
  const std::vector<std::uint64_t> shape = extent(space.id());
  if (shape.size() != 1 || shape[0] > kMaxColumnRows) {
    refuse(name_, name, "this is not a column of text, or it is longer than 2^27 rows.");
  }
  if (shape[0] == 0) {
    return {};
  }
  require_fixed_length(stored.id(), name_, name);
  auto texts = read_texts_as(stored.id(), shape[0], [&](hid_t type, void* out) {
    return H5Dread(set.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
  });
  if (!texts) {
    refuse(name_, name, fmt::format("this text cannot be read ({}); the file is damaged.", reason()));
  }
  return *std::move(texts);
}

void Hdf5File::set_text(const std::string& name, const std::string& value) {
  const Locked lock(library());
  const Hdf5Handle type = text_type(std::max<std::size_t>(1, value.size()));
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute(H5Acreate2(handle_.id(), name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  if (H5Awrite(attribute.id(), type.id(), value.c_str()) < 0) {
    write_failed(name_, name);
  }
}

std::string Hdf5File::text(const std::string& name) const {
  const Locked lock(library());
  if (H5Aexists(handle_.id(), name.c_str()) <= 0) {
    return "";
  }
  const Hdf5Handle attribute = owned(H5Aopen(handle_.id(), name.c_str(), H5P_DEFAULT), H5Aclose, name_, name);
  const Hdf5Handle stored(H5Aget_type(attribute.id()), H5Tclose);
  const Hdf5Handle space(H5Aget_space(attribute.id()), H5Sclose);
  if (H5Sget_simple_extent_npoints(space.id()) != 1) {
    refuse(name_, name, "this attribute is no single text.");
  }
  require_fixed_length(stored.id(), name_, name);
  auto texts = read_texts_as(stored.id(), 1, [&](hid_t type, void* out) { return H5Aread(attribute.id(), type, out); });
  if (!texts) {
    refuse(name_, name, fmt::format("this attribute is not text, or cannot be read: {}.", reason()));
  }
  return texts->front();
}

}  // namespace epsim
