// Files written whole or not at all, and folders that go away.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/limits.h"

namespace epsim {

// The whole file as text. Throws InputError when it is no regular file, cannot be read, or is larger than `most`.
std::string read_file(const std::filesystem::path& file, const Limit& most = limits::kResultBytes);
// As read_file(), of a document in UTF-8: one that is UTF-16, UTF-32 or no text is refused.
std::string read_document(const std::filesystem::path& file);
// Throws InputError where `text`, the start of a file, is UTF-16, UTF-32 or no text at all.
void check_utf8(std::string_view text, const InputPlace& place);

// The regular files of a folder, not of those below it, by name. Throws InputError.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

// A file that something was made from, or a folder of files.
struct InputFile {
  std::string name;  // absolute
  std::int64_t bytes = 0;
  std::string hash;  // of the content (fingerprint.h); of a folder: of its files' names and hashes
};
// Throws InputError when the file cannot be read.
InputFile describe_file(const std::filesystem::path& file);

// The file that this code was loaded from: the program `epsim`, or the Python module.
std::filesystem::path program_file();
// `name`, or, where there is no such file or folder, that below share/epsim of a folder above program_file():
// "experiments/quickstart/..." works from any folder. No name stays none.
std::filesystem::path shipped_file(const std::string& name);
// As shipped_file(), of a file that epsim asks for, not the user. Throws InputError, with what to do, where there is none.
std::filesystem::path own_file(const std::string& name);
// This machine's name, as a part of a file name.
std::string host_name();

// A file under a temporary name beside its own, which commit() gives it; without that the temporary one goes away.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  const std::filesystem::path& path() const { return temporary_; }
  // Throws RunFailed, with `advice`, when not all was written, or the folder does not take the file.
  void commit(bool written = true, const std::string& advice = "");

 private:
  std::filesystem::path target_, temporary_;
};

// Writes `content` to an AtomicFile. Throws RunFailed when the disk does not take it.
void write_file_atomically(const std::filesystem::path& file, const std::string& content);

// Another process is writing this output.
struct OutputBusy : InputError {
  using InputError::InputError;
};

// A folder that appears under its final name only when commit() is called: outputs are written to a temporary folder
// beside it, which is removed when the object goes away uncommitted. Refuses an existing target unless `overwrite`, and
// then replaces it as a whole, but only where the target holds `marker` (or nothing): a typo must not delete a home.
// Throws OutputBusy where another process is writing the target, and removes what a killed one left.
class OutputFolder {
 public:
  OutputFolder(const std::filesystem::path& target, bool overwrite, std::string marker);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;
  const std::filesystem::path& path() const { return temporary_; }
  const std::filesystem::path& target() const { return target_; }
  void commit();

 private:
  void unlock();

  std::filesystem::path target_, temporary_;
  int lock_ = -1;  // on `temporary_`
  bool overwrite_ = false;
  bool committed_ = false;
};

// A fresh folder below the system's temporary one, its name beginning with `prefix`; it goes away, with what is in it,
// when the object does. Throws RunFailed when it cannot be made.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace epsim
