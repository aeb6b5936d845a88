// What the files that call the HDF5 library share; ids are the library's hid_t.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace epsim {

// An id of the library, closed when the object goes away.
class Hdf5Handle {
 public:
  using Closer = int (*)(std::int64_t);
  Hdf5Handle() = default;
  Hdf5Handle(std::int64_t id, Closer closer) : id_(id), closer_(closer) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(other.id_), closer_(other.closer_) { other.closer_ = nullptr; }
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept;
  ~Hdf5Handle();
  std::int64_t id() const { return id_; }

 private:
  std::int64_t id_ = -1;
  Closer closer_ = nullptr;
};

namespace hdf5 {

using Locked = std::lock_guard<std::recursive_mutex>;

// The one lock of the process: the library keeps global state.
std::recursive_mutex& library();

// The innermost message of the library's error stack, which is then cleared.
std::string reason();

// An InputError about an object of a file, and a RunFailed about one that the disk did not take.
[[noreturn]] void refuse(const std::string& file, const std::string& object, const std::string& problem);
[[noreturn]] void write_failed(const std::string& file, const std::string& object);

// Takes an id over; refuses the object when it is none.
Hdf5Handle owned(std::int64_t id, Hdf5Handle::Closer closer, const std::string& file, const std::string& object);

// Creation properties of an object without its time of creation: equal traces are equal bytes.
Hdf5Handle timeless(std::int64_t property_class);
// Makes the groups that the object's name runs through and that are not there yet.
void make_parents(std::int64_t file, const std::string& name);

// Lengths of a dataspace's axes.
std::vector<std::uint64_t> extent(std::int64_t space);

}  // namespace hdf5

}  // namespace epsim
