// The folder in which a study keeps its finished jobs, from the start on: work that was killed goes on where it
// stopped. Any number of processes, on any machines that share the folder, may work on one study at a time.
//
//   MANIFEST             what the study was made from, as JSON: other inputs are refused
//   JOBS.pack            results of finished jobs by key, once no process works on it any more
//   JOBS/                until then: a file of results per process, and who has claimed what (job_folder.h)
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/error.h"

namespace epsim {

class MpiFarm;

// This process has done its part of a study, and another gathers the results.
struct ShardFinished : RunFailed {
  ShardFinished() : RunFailed("this part is finished.") {}
};

// What a folder holds, and its names.
struct StoreKind {
  const char* what;      // "sweep", in error messages
  const char* manifest;  // file name
  const char* jobs;      // folder name
};

// The part of a study that a process runs, where several share it without talking to each other.
struct Shard {
  std::size_t index = 0, count = 1;
  bool has(std::size_t job) const { return job % count == index; }
  bool whole() const { return count == 1; }
};

// How a process shares a study with others, besides the folder.
struct Sharing {
  Shard shard = {};
  MpiFarm* farm = nullptr;      // of the ranks the first alone gathers the results
  std::string drop_label = {};  // results whose label begins so are dropped first
};

class JobStore {
 public:
  // Makes the folder, or goes on with one that has the same `manifest` (a JSON text). Throws InputError when the folder
  // holds something else or a study of other inputs (naming the differences), and RunFailed when the disk does not take
  // it. `overwrite` starts anew; that and dropping results are refused while another process works there.
  JobStore(const std::filesystem::path& target, const StoreKind& kind, const std::string& manifest, bool overwrite,
           Sharing sharing = {});
  ~JobStore();
  JobStore(const JobStore&) = delete;
  JobStore& operator=(const JobStore&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const Shard& shard() const { return sharing_.shard; }
  MpiFarm* farm() const { return sharing_.farm; }

  // All safe to call from several threads.

  bool has(const std::string& key) const;
  // Nothing when the job is not finished, as far as this process has noticed.
  std::optional<std::string> load(const std::string& key) const;
  std::string label_of(const std::string& key) const;  // as of save(); "" when it is not finished
  // Whole or not at all; `label` is a word. Throws RunFailed.
  void save(const std::string& key, const std::string& text, const std::string& label = "") const;
  // A result that cannot be used: it counts as not finished until it is saved again.
  void discard(const std::string& key) const;

  // Notices what other processes have done since.
  void refresh() const;
  // Makes this process known to others, and what they have done known to it: before its first claim.
  void join() const;
  // Whether a unit of work is free: claimed by no other process that lives.
  bool claimable(const std::string& unit) const;
  // True when the unit is this process's from now on; a process that dies loses its units to the next that asks.
  bool claim(const std::string& unit) const;
  void release(const std::string& unit) const;  // unfinished

  // Another process that works there, as "HOST, process PID"; nothing when there is none.
  std::optional<std::string> other_worker() const;
  // The jobs are finished: the last process to say so merges all results into JOBS.pack, in the order of keys. Throws
  // ShardFinished in a process that is not to gather the results.
  void finish() const;

 private:
  struct Work;
  void open(const std::string& manifest, bool overwrite);
  void begin_folder(const std::string& manifest, bool overwrite);
  void drop(const std::string& label) const;
  void check_manifest(const std::string& manifest) const;
  void remove_leftovers() const;

  StoreKind kind_;
  Sharing sharing_;
  std::filesystem::path path_;
  std::unique_ptr<Work> work_;
};

// Whether the folder holds a study of this kind on the same inputs.
bool holds_study(const std::filesystem::path& folder, const StoreKind& kind, const std::string& manifest);
// Deletes the folder, its manifest last: what a kill leaves is still taken for a study, and replaced.
void remove_study(const std::filesystem::path& folder, const StoreKind& kind);

}  // namespace epsim
