// Zip archives, as NumPy and PyTorch write them: entries stored or deflated, Zip64 where sizes need it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "traces/format/text_input.h"

namespace epsim {

// Reads from the file as asked; in memory is the directory alone. Every error is an InputError that names `kind`.
class ZipArchive {
 public:
  struct Entry {
    std::string name;
    std::uint64_t method = 0, packed = 0, size = 0, offset = 0;  // method 0: stored; offset: of the entry's own header
  };

  // `kind`: what the file should be, for messages (".npz archive"). A gzipped archive is unpacked, to 4 GiB at most of
  // the temporary folder. Throws RunFailed when that folder does not take it.
  ZipArchive(const std::filesystem::path& file, std::string kind);

  const std::vector<Entry>& entries() const { return entries_; }
  // An entry's content, at most `most` bytes.
  std::string unpack(const Entry& entry, std::uint64_t most);
  // `out.size()` bytes of a stored entry, from its byte `first` on.
  void read(const Entry& entry, std::uint64_t first, std::span<char> out);

  void require(bool holds, const std::string& problem) const;

 private:
  std::string bytes(std::uint64_t first, std::uint64_t count);
  void gunzip(const std::filesystem::path& file);
  void read_directory();
  void add_entries(std::uint64_t first, std::uint64_t size, std::uint64_t count);
  std::uint64_t data_start(const Entry& entry);

  std::string name_, kind_;
  std::fstream in_;
  std::uint64_t size_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace epsim
