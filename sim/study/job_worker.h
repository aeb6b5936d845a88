// A process at work in a study's folder: one file of its own, to which it appends its results (job_pack.h) and which it
// touches while it lives. Whether another is alive is judged by a lock on that file on the same machine, and elsewhere
// by when it was touched last, on the file server's clock: clocks of machines are never compared.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace epsim {

inline constexpr std::chrono::seconds kBeat{15}, kDeadAfter{120};  // between touches; without one

// The first line of a worker's file.
struct WorkerName {
  std::string host, boot;  // `boot` differs between machines, and between two starts of one
  int pid = 0;
  double started_s = 0;  // on the file server's clock
  bool locked = false;   // the file is locked while the process lives
};
WorkerName this_process();
std::string worker_line(const WorkerName& name);
WorkerName worker_in(const std::string& line);  // of a damaged line: no host

class Worker {
 public:
  // Creates FOLDER/HOST-PID.pack. Throws RunFailed.
  explicit Worker(const std::filesystem::path& folder);
  ~Worker();  // without finish(), the file looks like that of a process that was killed
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t inode() const { return inode_; }
  // Whole or not at all; returns where the entry begins. Throws RunFailed, also where earlier results did not reach the
  // disk.
  std::uint64_t append(const std::string& entry);
  // No more results follow. All of them are on the disk.
  void finish();

 private:
  void beat();
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t inode_ = 0, end_ = 0;
  bool dirty_ = false, stop_ = false, finished_ = false;
  int error_ = 0;  // of a flush
  std::mutex turn_;
  std::condition_variable wake_;
  std::thread thread_;
};

// The file server's time, by a file that is created and removed in the folder; 0 where another process has merged the
// results and removed the folder. Who may not write there, and so decides nothing, gets its own clock. Throws RunFailed.
double server_time_s(const std::filesystem::path& folder);
// Whether the process that writes the file lives, as of the server's time `now_s`.
bool lives(const std::filesystem::path& file, const WorkerName& name, double now_s);

}  // namespace epsim
