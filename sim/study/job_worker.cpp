#include "sim/study/job_worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/study/job_pack.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

constexpr int kMostRemovals = 1000;        // of an empty folder, between making it and opening a file there
constexpr std::chrono::seconds kFlush{1};  // other machines see results after this at the latest

double modified_s(const struct stat& file) {
  return static_cast<double>(file.st_mtim.tv_sec) + static_cast<double>(file.st_mtim.tv_nsec) * 1e-9;
}

// True when all was written.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(descriptor, text.data(), text.size());
    if (done < 0 && errno != EINTR) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(done, 0)));
  }
  return true;
}

}  // namespace

WorkerName this_process() {
  WorkerName out;
  out.host = host_name();
  std::ifstream("/proc/sys/kernel/random/boot_id") >> out.boot;
  out.pid = getpid();
  return out;
}

std::string worker_line(const WorkerName& name) {
  return nlohmann::ordered_json{{"host", name.host},
                                {"pid", name.pid},
                                {"boot", name.boot},
                                {"started_s", name.started_s},
                                {"locked", name.locked}}
      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

WorkerName worker_in(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  WorkerName out;
  if (json.is_object()) {
    out = {json.value("host", ""), json.value("boot", ""), json.value("pid", 0), json.value("started_s", 0.0),
           json.value("locked", false)};
  }
  return out;
}

Worker::Worker(const fs::path& folder) {
  WorkerName name = this_process();
  for (int attempt = 1, removed = 0; descriptor_ < 0;) {
    std::error_code ignored;
    fs::create_directory(folder, ignored);
    path_ = folder / fmt::format("{}-{}{}.pack", name.host, name.pid, attempt > 1 ? fmt::format("-{}", attempt) : "");
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == EEXIST) {
      ++attempt;  // an earlier process had the same number
    } else if (descriptor_ < 0 && (errno != ENOENT || ++removed > kMostRemovals)) {
      fail(errno);  // ENOENT: another process merged its results and removed the empty folder
    }
  }
  name.locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
  struct stat file {};
  if (fstat(descriptor_, &file) != 0) {
    fail(errno);
  }
  inode_ = file.st_ino;
  name.started_s = modified_s(file);
  append(pack_head(worker_line(name)));
  thread_ = std::thread([this] { beat(); });
}

Worker::~Worker() {
  {
    const std::lock_guard lock(turn_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

void Worker::fail(int error) const {
  throw RunFailed(
      fmt::format("{}: cannot be written: {}. Finished results are kept; rerun the same command to continue.",
                  path_.string(), std::strerror(error)));
}

std::uint64_t Worker::append(const std::string& entry) {
  const std::lock_guard lock(turn_);
  if (error_ != 0) {
    fail(error_);
  }
  if (!write_all(descriptor_, entry)) {
    const int error = errno;
    if (ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) {
      // The half entry is passed over when the file is read.
    }
    fail(error);
  }
  const std::uint64_t at = end_;
  end_ += entry.size();
  dirty_ = true;
  return at;
}

void Worker::finish() {
  const bool first = !finished_;
  finished_ = true;
  if (first) {
    append(std::string(kPackEnd));
  }
  const std::lock_guard lock(turn_);
  if (error_ == 0 && dirty_ && fdatasync(descriptor_) != 0) {
    error_ = errno;
  }
  dirty_ = false;
  if (error_ != 0) {
    fail(error_);
  }
}

void Worker::beat() {
  auto touched = std::chrono::steady_clock::now();
  std::unique_lock lock(turn_);
  while (!wake_.wait_for(lock, kFlush, [this] { return stop_; })) {
    if (std::exchange(dirty_, false)) {
      lock.unlock();  // results follow meanwhile
      const int error = fdatasync(descriptor_) == 0 ? 0 : errno;
      lock.lock();
      error_ = error_ == 0 ? error : error_;
    }
    if (const auto now = std::chrono::steady_clock::now(); now - touched >= kBeat) {
      touched = now;
      futimens(descriptor_, nullptr);  // "now" of the file server
    }
  }
}

double server_time_s(const fs::path& folder) {
  std::string name = (folder / ".now-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0 && errno == ENOENT) {
    return 0;
  }
  if (descriptor < 0 && (errno == EROFS || errno == EACCES)) {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  if (descriptor < 0) {
    throw RunFailed(fmt::format("{}: no file can be made there: {}.", folder.string(), std::strerror(errno)));
  }
  struct stat file {};
  const bool known = fstat(descriptor, &file) == 0;
  close(descriptor);
  unlink(name.c_str());
  return known ? modified_s(file) : 0;
}

bool lives(const fs::path& path, const WorkerName& name, double now_s) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return false;
  }
  bool out = false;
  if (name.locked && name.boot == this_process().boot) {
    out = flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  } else {
    struct stat file {};
    // A time far ahead is as dead as one far behind: the server's clock was set back.
    out = fstat(descriptor, &file) == 0 &&
          std::abs(now_s - modified_s(file)) < std::chrono::duration<double>(kDeadAfter).count();
  }
  close(descriptor);
  return out;
}

}  // namespace epsim
