// A folder in which a verb works for long: what it was made from, and every finished part, from the start on; so that
// work which was killed goes on where it stopped.
//
//   MANIFEST             the inputs, as JSON: who goes on with other ones is refused
//   PARTS/NAME.json      one finished part each, written to a temporary name and renamed
//
// One process at a time works in it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/report/json.h"

namespace epsim::app {

// What a folder holds, and its names.
struct WorkKind {
  const char* what;      // "sweep", in error messages
  const char* manifest;  // file name
  const char* parts;     // folder name
};

class WorkFolder {
 public:
  // Makes the folder, or goes on with one that has the same `manifest` (a JSON text). Throws InputError when another
  // process works there, when the folder holds something else or work on other inputs (naming the differences), and
  // RunFailed when the disk does not take it. `overwrite` starts anew.
  WorkFolder(const std::filesystem::path& target, const WorkKind& kind, const std::string& manifest, bool overwrite);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Safe to call from several threads for different parts. Nothing when the part is not there.
  std::optional<std::string> load(const std::string& part) const;
  // Throws RunFailed.
  void save(const std::string& part, const std::string& text) const;

 private:
  std::filesystem::path file_of(const std::string& part) const;
  void take_lock();
  void check_manifest(const std::string& manifest) const;
  void remove_leftovers() const;

  WorkKind kind_;
  std::filesystem::path path_;
  int lock_ = -1;
};

// Whether the folder holds work of this kind on the same inputs.
bool holds_work(const std::filesystem::path& folder, const WorkKind& kind, const std::string& manifest);

// Name, size and content's hash of a file; its name as an absolute path.
InputFile describe_file(const std::filesystem::path& file);

}  // namespace epsim::app
