// The folder in which a study keeps its finished jobs, from the start on: work that was killed goes on where it stopped.
//
//   MANIFEST             what the study was made from, as JSON: other inputs are refused
//   JOBS/KEY.json        the result of one finished job, written to a temporary name and renamed
//
// One process at a time works in it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace epsim {

// What a folder holds, and its names.
struct StoreKind {
  const char* what;      // "sweep", in error messages
  const char* manifest;  // file name
  const char* jobs;      // folder name
};

class JobStore {
 public:
  // Makes the folder, or goes on with one that has the same `manifest` (a JSON text). Throws InputError when another
  // process works there, when the folder holds something else or a study of other inputs (naming the differences), and
  // RunFailed when the disk does not take it. `overwrite` starts anew.
  JobStore(const std::filesystem::path& target, const StoreKind& kind, const std::string& manifest, bool overwrite);
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Safe to call from several threads for different keys. Nothing when the job is not finished.
  std::optional<std::string> load(const std::string& key) const;
  // Whole or not at all. Throws RunFailed.
  void save(const std::string& key, const std::string& text) const;

 private:
  std::filesystem::path file_of(const std::string& key) const;
  void take_lock();
  void check_manifest(const std::string& manifest) const;
  void remove_leftovers() const;

  StoreKind kind_;
  std::filesystem::path path_;
  struct Lock {
    int descriptor = -1;
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { release(); }
    void release();
  } lock_;
};

// Whether the folder holds a study of this kind on the same inputs.
bool holds_study(const std::filesystem::path& folder, const StoreKind& kind, const std::string& manifest);

}  // namespace epsim
