#include "traces/hdf5_heap.h"

#include <hdf5.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "traces/hdf5_internal.h"

namespace epsim::hdf5 {

namespace {

constexpr std::size_t kHeapHead = 16, kObjectHead = 16;
constexpr std::uint64_t kMostHeap = std::uint64_t{256} << 20;
constexpr std::size_t kMostKept = std::size_t{64} << 20;  // bytes of heaps in memory, beyond the one at hand

std::uint64_t number(const unsigned char* from, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i) {
    value = value << 8 | from[i];
  }
  return value;
}

// The references stay as they are: the library only has to know that there is a way.
herr_t keep_reference(hid_t from, hid_t to, H5T_cdata_t* data, std::size_t, std::size_t, std::size_t, void*, void*,
                      hid_t) {
  if (data->command == H5T_CONV_INIT) {
    data->need_bkg = H5T_BKG_NO;
    return H5Tget_size(from) == sizeof(HeapReference) && H5Tget_size(to) == sizeof(HeapReference) ? 0 : -1;
  }
  return 0;
}

// One global heap: its objects by number.
struct Heap {
  std::string bytes;
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> objects;  // number -> (first byte, size)
};

class HeapReader {
 public:
  HeapReader(const std::string& file, std::uint64_t base) : file_(file), in_(file, std::ios::binary), base_(base) {
    in_.seekg(0, std::ios::end);
    size_ = static_cast<std::uint64_t>(std::max<std::streamoff>(0, in_.tellg()));
  }
  std::string text(const HeapReference& place) {
    const std::uint64_t length = number(place.bytes, 4), address = number(place.bytes + 4, 8);
    if (length == 0) {
      return "";
    }
    const Heap& heap = at(address);
    const auto object = heap.objects.find(number(place.bytes + 12, 4));
    require(object != heap.objects.end() && length <= object->second.second);
    const std::string out = heap.bytes.substr(object->second.first, length);
    return out.substr(0, out.find('\0'));
  }

 private:
  void require(bool holds) const {
    if (!holds) {
      refuse(file_, "", "a text of variable length cannot be read; the file is damaged.");
    }
  }
  const Heap& at(std::uint64_t address) {
    const auto known = heaps_.find(address);
    if (known != heaps_.end()) {
      return known->second;
    }
    if (kept_ > kMostKept) {
      heaps_.clear();
      kept_ = 0;
    }
    Heap heap;
    read(address, heap);
    kept_ += heap.bytes.size();
    return heaps_.emplace(address, std::move(heap)).first->second;
  }
  void fill(std::uint64_t from, std::string& out) {
    in_.clear();
    in_.seekg(static_cast<std::streamoff>(from));
    in_.read(out.data(), static_cast<std::streamsize>(out.size()));
    require(in_.good());
  }
  // "GCOL", version 1, three unused bytes, size of all; objects: number, two counts, size, bytes up to a multiple of 8.
  void read(std::uint64_t address, Heap& heap) {
    require(address < size_ && base_ < size_ - address && kHeapHead <= size_ - address - base_);
    const std::uint64_t from = base_ + address;
    heap.bytes.resize(kHeapHead);
    fill(from, heap.bytes);
    const auto* bytes = reinterpret_cast<const unsigned char*>(heap.bytes.data());
    const std::uint64_t size = number(bytes + 8, 8);
    require(heap.bytes.starts_with(std::string_view("GCOL\x01", 5)) && size >= kHeapHead && size <= kMostHeap &&
            size <= size_ - from);
    heap.bytes.resize(size);
    fill(from, heap.bytes);
    bytes = reinterpret_cast<const unsigned char*>(heap.bytes.data());
    for (std::uint64_t i = kHeapHead; i + kObjectHead <= size;) {
      const std::uint64_t object = number(bytes + i, 2), length = number(bytes + i + 8, 8);
      i += kObjectHead;
      if (object == 0) {  // the rest is free
        break;
      }
      require(length <= size - i);
      heap.objects.emplace(object, std::pair(i, length));
      i += (length + 7) / 8 * 8;
    }
  }

  const std::string& file_;
  std::ifstream in_;
  std::uint64_t base_, size_ = 0;
  std::map<std::uint64_t, Heap> heaps_;
  std::size_t kept_ = 0;
};

}  // namespace

Hdf5Handle heap_reference_type() {
  Hdf5Handle type(H5Tcreate(H5T_OPAQUE, sizeof(HeapReference)), H5Tclose);
  Hdf5Handle text(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(text.id(), H5T_VARIABLE);
  static const herr_t registered =
      H5Tregister(H5T_PERS_SOFT, "epsim-heap-references", text.id(), type.id(), keep_reference);
  return registered < 0 ? Hdf5Handle() : std::move(type);
}

std::vector<std::string> heap_texts(const std::string& file, std::int64_t id, const std::vector<HeapReference>& places,
                                    std::size_t most) {
  const Hdf5Handle creation(H5Fget_create_plist(id), H5Pclose);
  std::size_t address_size = 0, length_size = 0;
  hsize_t base = 0;
  if (H5Pget_sizes(creation.id(), &address_size, &length_size) < 0 || H5Pget_userblock(creation.id(), &base) < 0 ||
      address_size != 8 || length_size != 8) {
    refuse(file, "", "texts of variable length are read from files with addresses of 8 bytes only.");
  }
  HeapReader reader(file, base);
  std::vector<std::string> out;
  std::size_t total = 0;
  for (const HeapReference& place : places) {
    out.push_back(reader.text(place));
    total += out.back().size();
    if (total > most) {
      refuse(file, "", "texts of variable length that take more than 1 GiB together.");
    }
  }
  return out;
}

}  // namespace epsim::hdf5
