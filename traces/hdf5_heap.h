// Texts of variable length, read past the HDF5 library: it trusts the lengths that the file states for them, which no
// checksum covers, and writes beyond its buffers where they are wrong (H5HG_read of HDF5 1.10).
//   Source: HDF5 File Format Specification 3.0, "Disk Format: Level 1E - Global Heap" and "Variable-length Types".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "traces/hdf5_file.h"

namespace epsim::hdf5 {

// Where a text lies, as it stands in the file: length, address of the heap, number of the object in it. Addresses of 8
// bytes, little-endian, without padding.
struct HeapReference {
  unsigned char bytes[16] = {};
};

// A memory type for reads of variable-length text that gives out the references. The caller holds the library's lock.
Hdf5Handle heap_reference_type();

// The texts, their zero bytes at the end left out. Throws InputError naming the file when a reference or a heap is
// damaged, or when they take more than `most` bytes together. `id`: the open file.
std::vector<std::string> heap_texts(const std::string& file, std::int64_t id, const std::vector<HeapReference>& places,
                                    std::size_t most);

}  // namespace epsim::hdf5
