#include "traces/format/hdf5_handle.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <utility>

#include "sim/core/error.h"

namespace epsim {

Hdf5Handle& Hdf5Handle::operator=(Hdf5Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(closer_, other.closer_);
  return *this;
}
Hdf5Handle::~Hdf5Handle() {
  if (closer_ != nullptr && id_ >= 0) {
    const hdf5::Locked lock(hdf5::library());
    closer_(id_);
  }
}

namespace hdf5 {

std::recursive_mutex& library() {
  static std::recursive_mutex mutex;
  // Every file is closed by its owner. At exit the library closes one again that a full disk did not take, and crashes.
  [[maybe_unused]] static const bool once = H5dont_atexit() >= 0;
  return mutex;
}

std::string reason() {
  std::string text;
  const auto keep_first = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    auto& first = *static_cast<std::string*>(out);
    if (first.empty() && error->desc != nullptr) {
      first = error->desc;
    }
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "no reason given" : text;
}

void refuse(const std::string& file, const std::string& object, const std::string& problem) {
  throw InputError({file, 0, object}, problem);
}
void write_failed(const std::string& file, const std::string& object) {
  throw RunFailed(fmt::format("{}: {} cannot be written ({}); is the disk full?", file, object, reason()));
}

Hdf5Handle owned(hid_t id, Hdf5Handle::Closer closer, const std::string& file, const std::string& object) {
  if (id < 0) {
    refuse(file, object, fmt::format("this cannot be read: {}.", reason()));
  }
  return {id, closer};
}

Hdf5Handle timeless(std::int64_t property_class) {
  Hdf5Handle properties(H5Pcreate(property_class), H5Pclose);
  H5Pset_obj_track_times(properties.id(), false);
  return properties;
}

void make_parents(std::int64_t file, const std::string& name) {
  for (std::size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string group = name.substr(0, slash);
    if (H5Lexists(file, group.c_str(), H5P_DEFAULT) <= 0) {
      const Hdf5Handle properties = timeless(H5P_GROUP_CREATE);
      const Hdf5Handle made(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, properties.id(), H5P_DEFAULT), H5Gclose);
    }
  }
}

std::vector<std::uint64_t> extent(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) {
    H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  }
  return {dims.begin(), dims.end()};
}

}  // namespace hdf5

}  // namespace epsim
