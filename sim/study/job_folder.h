// What a study's folder holds of finished jobs and of processes at work:
//
//   JOBS.pack               results by key, once nothing works here any more (job_pack.h)
//   JOBS/HOST-PID.pack      a process, and the results that it has finished (job_worker.h)
//   JOBS/UNIT.N.claim       a hard link to the file of the process that runs the unit; N counts its owners, dead ones
//   too
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/study/job_pack.h"
#include "sim/study/job_worker.h"

namespace epsim {

class JobFolder {
 public:
  struct Pack {
    std::filesystem::path path;
    std::uint64_t inode = 0;
    PackScan scan;
    WorkerName writer;
    bool gone = false, lives = false;  // `lives`: has not finished, and was alive at the last refresh()
  };
  struct Claim {
    int number = -1;  // -1: none yet
    std::uint64_t inode = 0;
  };

  JobFolder(std::filesystem::path folder, const std::string& jobs);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::filesystem::path& work() const { return work_; }
  const std::filesystem::path& merged() const { return packs_.front().path; }
  // Takes notice of what was finished, claimed or merged since. `own`: this process's file, if it has one.
  void refresh(std::uint64_t own);

  bool has(const std::string& key) const { return index_.contains(key); }
  std::size_t size() const { return index_.size(); }
  std::vector<std::string> keys() const;  // sorted
  // Empty when there is none. `label_of` is "" then too.
  std::string label_of(const std::string& key) const;
  std::optional<std::string> text_of(const std::string& key, std::uint64_t own);
  void forget(const std::string& key) { index_.erase(key); }
  // An entry that this process appended to its own file.
  void add(const PackedJob& job, std::uint64_t own);

  Claim claim_of(const std::string& unit) const;
  void claimed(const std::string& unit, const Claim& claim) { claims_[unit] = claim; }
  std::filesystem::path claim_file(const std::string& unit, int number) const;
  const Pack* pack_of(std::uint64_t inode) const;

  // The merged one first; those of processes by name as they were found.
  const std::vector<Pack>& packs() const { return packs_; }
  const std::map<std::string, Claim>& claims() const { return claims_; }

 private:
  struct Place {
    std::uint32_t pack = 0, label = 0;
    std::uint64_t at = 0, bytes = 0, hash = 0;
  };

  void list();
  void scan(std::size_t pack, bool skip_damaged);
  void scan_merged();
  void insert(std::size_t pack, const PackedJob& job);
  int descriptor_of(std::size_t pack);

  std::filesystem::path work_;
  std::vector<Pack> packs_;
  std::map<std::string, Claim> claims_;
  std::unordered_map<std::string, Place> index_;
  std::vector<std::string> labels_;
  std::map<std::size_t, int> open_;  // descriptors, by pack
  std::uint64_t merged_bytes_ = 0;
  timespec merged_at_{};
};

}  // namespace epsim
