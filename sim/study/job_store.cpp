#include "sim/study/job_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/study/job_folder.h"
#include "sim/study/mpi_farm.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// "axes/0/values/2", of a sweep, in the words of its options; other places as they are.
std::string place_words(const Json& in, const std::string& path) {
  unsigned axis = 0, value = 0;
  int end = 0;
  const bool found = std::sscanf(path.c_str(), "/axes/%u/values/%u%n", &axis, &value, &end) == 2 &&
                     end == static_cast<int>(path.size());
  return found ? fmt::format("value {} of --vary {}", value + 1, in.at("axes").at(axis).value("key", ""))
               : path.substr(1);
}

// Up to three places in which two documents differ, in words.
std::string differences(const Json& before, const Json& now) {
  const Json a = before.flatten(), b = now.flatten();
  constexpr std::size_t kMost = 3;
  std::vector<std::string> out;
  const auto value_in = [](const Json& json, const std::string& key) {
    return json.contains(key) ? json.at(key).dump(-1, ' ', false, Json::error_handler_t::replace) : "absent";
  };
  const auto compare = [&](const Json& keys, bool both) {
    for (const auto& [key, value] : keys.items()) {
      if (a.contains(key) == both || !both) {
        const std::string was = value_in(a, key), is = value_in(b, key);
        if (was != is && (both || !a.contains(key))) {
          out.push_back(fmt::format("{} was {} and is {}", place_words(both ? before : now, key), was, is));
        }
      }
    }
  };
  compare(a, true);
  compare(b, false);
  const std::size_t more = out.size() > kMost ? out.size() - kMost : 0;
  out.resize(out.size() - more);
  return fmt::format("{}{}", fmt::join(out, "; "), more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace

struct JobStore::Work {
  Work(const fs::path& path, const StoreKind& kind) : folder(path, kind.jobs) {}

  std::uint64_t own() const { return worker != nullptr ? worker->inode() : 0; }
  // Made when it is needed: a process that finds everything done leaves no trace.
  Worker& ready_worker() {
    if (worker == nullptr) {
      worker = std::make_unique<Worker>(folder.work());
      folder.refresh(own());
    }
    return *worker;
  }
  bool claimable(const JobFolder::Claim& claim) const;
  bool claim(const std::string& unit);
  const JobFolder::Pack* other() const;
  void merge(const std::string& dropped);

  mutable std::mutex turn;
  JobFolder folder;
  std::unique_ptr<Worker> worker;
};

namespace {

constexpr const char* kMergeUnit = ".merge";
constexpr std::chrono::milliseconds kMergePoll{20};
constexpr std::chrono::seconds kBeginWait{5};  // for another process that begins the same folder
constexpr std::chrono::milliseconds kBeginStep{10};
constexpr std::chrono::seconds kMergeWait{5};  // for other processes that are about to finish

// The manifest with the kind of study: several kinds have one file name.
std::string of_kind(const StoreKind& kind, const std::string& manifest) {
  Json out = Json::parse(manifest);
  out["study"] = kind.what;
  return out.dump(2) + "\n";
}

std::string name_of(const WorkerName& worker) {
  return worker.host.empty() ? "a process that has just begun" : fmt::format("{}, process {}", worker.host, worker.pid);
}

}  // namespace

JobStore::JobStore(const fs::path& target, const StoreKind& kind, const std::string& manifest, bool overwrite,
                   Sharing sharing)
    : kind_(kind), sharing_(std::move(sharing)), path_(target) {
  const bool first = sharing_.farm == nullptr || sharing_.farm->rank() == 0;
  if (!first) {
    sharing_.farm->begin();
  }
  open(of_kind(kind_, manifest), overwrite && first);
  if (first && !sharing_.drop_label.empty()) {
    drop(sharing_.drop_label);
  }
  if (first && sharing_.farm != nullptr) {
    sharing_.farm->begin();
  }
}

// Another process of this study may be faster: the one that lost waits until the folder is there.
void JobStore::begin_folder(const std::string& manifest, bool overwrite) {
  const auto until = std::chrono::steady_clock::now() + kBeginWait;
  std::error_code ignored;
  const auto begun = [&] { return !overwrite && fs::exists(path_ / kind_.manifest, ignored); };
  while (!begun()) {
    try {
      OutputFolder fresh(path_, overwrite, kind_.manifest);
      path_ = fresh.target();
      write_file_atomically(fresh.path() / kind_.manifest, manifest);
      fresh.commit();
      return;
    } catch (const OutputBusy&) {
      if (overwrite || std::chrono::steady_clock::now() > until) {
        throw;
      }
      std::this_thread::sleep_for(kBeginStep);
    } catch (const std::runtime_error&) {
      if (!begun()) {
        throw;
      }
    }
  }
}

void JobStore::open(const std::string& manifest, bool overwrite) {
  std::error_code ignored;
  const bool ours = fs::exists(path_ / kind_.manifest, ignored);
  if (ours && overwrite) {
    work_ = std::make_unique<Work>(path_, kind_);
    if (const std::optional<std::string> other = other_worker()) {
      throw InputError({path_.string(), 0, ""},
                       fmt::format("another process works on this {} ({}), so --overwrite is refused; wait for it, or "
                                   "name another folder.",
                                   kind_.what, *other));
    }
  }
  if (!ours || overwrite) {
    begin_folder(manifest, overwrite);
  }
  check_manifest(manifest);
  remove_leftovers();
  work_ = std::make_unique<Work>(path_, kind_);
  work_->folder.refresh(0);
}

JobStore::~JobStore() {
  if (work_->worker != nullptr) {
    try {
      work_->worker->finish();
    } catch (const RunFailed&) {
      // What did not reach the disk is run again.
    }
  }
}

bool holds_study(const fs::path& folder, const StoreKind& kind, const std::string& manifest) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kind.manifest, ignored)) {
    return false;
  }
  const Json before = Json::parse(read_file((folder / kind.manifest).string()), nullptr, false);
  return before == Json::parse(of_kind(kind, manifest));
}

void remove_study(const fs::path& folder, const StoreKind& kind) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != kind.manifest) {
      fs::remove_all(entry.path());
    }
  }
  fs::remove_all(folder);
}

void JobStore::check_manifest(const std::string& manifest) const {
  const std::string file = (path_ / kind_.manifest).string();
  Json before;
  try {
    before = Json::parse(read_file(file));
  } catch (const Json::exception&) {
    throw InputError({file, 0, ""},
                     fmt::format("this is not the description of a {}; add --overwrite to start over.", kind_.what));
  }
  const Json now = Json::parse(manifest);
  if (before.is_object() && before.value("study", kind_.what) != kind_.what) {
    throw InputError({file, 0, ""}, fmt::format("the folder holds a {}, and this is a {}. Name another folder, or add "
                                                "--overwrite to replace it.",
                                                before.value("study", ""), kind_.what));
  }
  if (before.is_object() && before.value("program_hash", "") != now.value("program_hash", "")) {
    throw InputError(
        {file, 0, ""},
        fmt::format("the folder holds a {} of another build of epsim (program_hash {}; this one is {}), whose "
                    "figures may differ. Use that build, name another folder, or add --overwrite to start "
                    "over.",
                    kind_.what, before.value("program_hash", "absent"), now.value("program_hash", "")));
  }
  if (before != now) {
    throw InputError({file, 0, ""}, fmt::format("the folder holds a {} with other inputs: {}. Name another folder, or "
                                                "add --overwrite to start over.",
                                                kind_.what, differences(before, now)));
  }
}

// Temporary files and folders (OutputFolder's) of a process that was killed while it wrote: of this machine, ones whose
// process is gone; of others, old ones.
void JobStore::remove_leftovers() const {
  std::error_code ignored;
  std::vector<fs::path> left;
  const auto dead = [](std::string_view name, std::string_view mark) {
    name.remove_prefix(name.find(mark) + mark.size());
    int pid = 0;
    const char* const end = std::from_chars(name.data(), name.data() + name.size(), pid).ptr;
    const std::string host(end, name.data() + name.size());
    return pid > 0 && (host.empty() || host == "-" + host_name()) && kill(pid, 0) != 0 && errno == ESRCH;
  };
  for (const auto& entry : fs::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().string();
    // Folders by the whole form of their names: a reader's own is not to go with them.
    const bool folder =
        entry.is_directory(ignored) && name.front() == '.' && name.find(".partial-") != std::string::npos;
    if (folder ? dead(name, ".partial-") : name.find(".tmp") != std::string::npos && dead(name, ".tmp")) {
      left.push_back(entry.path());
    }
  }
  for (const fs::path& one : left) {
    fs::remove_all(one, ignored);
  }
}

bool JobStore::has(const std::string& key) const {
  const std::lock_guard lock(work_->turn);
  return work_->folder.has(key);
}

std::optional<std::string> JobStore::load(const std::string& key) const {
  const std::lock_guard lock(work_->turn);
  return work_->folder.text_of(key, work_->own());
}

std::string JobStore::label_of(const std::string& key) const {
  const std::lock_guard lock(work_->turn);
  return work_->folder.label_of(key);
}

void JobStore::save(const std::string& key, const std::string& text, const std::string& label) const {
  const std::string entry = pack_entry(key, label, text);
  const std::lock_guard lock(work_->turn);
  const std::uint64_t at = work_->ready_worker().append(entry);
  work_->folder.add(
      {key, label.empty() ? "-" : label, at + entry.size() - text.size() - 1, text.size(), text_hash(text)},
      work_->own());
}

void JobStore::discard(const std::string& key) const {
  const std::lock_guard lock(work_->turn);
  work_->folder.forget(key);
}

void JobStore::refresh() const {
  const std::lock_guard lock(work_->turn);
  work_->folder.refresh(work_->own());
}

void JobStore::join() const {
  const std::lock_guard lock(work_->turn);
  work_->ready_worker();
}

bool JobStore::claimable(const std::string& unit) const {
  const std::lock_guard lock(work_->turn);
  return work_->claimable(work_->folder.claim_of(unit));
}

bool JobStore::Work::claimable(const JobFolder::Claim& claim) const {
  if (claim.number < 0 || claim.inode == 0) {
    return true;
  }
  const JobFolder::Pack* owner = folder.pack_of(claim.inode);  // null: it came after the last refresh()
  return claim.inode == own() || (owner != nullptr && !owner->lives);
}

// Link after link, each to the file of another owner: of two that ask at once one gets it, and a dead owner's link
// stays, so that nobody can take a living owner's away.
bool JobStore::Work::claim(const std::string& unit) {
  ready_worker();
  const JobFolder::Claim known = folder.claim_of(unit);
  if (known.number >= 0 && known.inode == own()) {
    return true;
  }
  if (!claimable(known)) {
    return false;
  }
  const JobFolder::Claim wanted{known.number + 1, own()};
  const fs::path file = folder.claim_file(unit, wanted.number);
  struct stat there {};
  if (link(worker->path().c_str(), file.c_str()) != 0) {
    if (const int error = errno; error == ENOENT && unit == kMergeUnit) {
      return false;  // another process has merged the results
    } else if (error != EEXIST) {
      throw RunFailed(
          fmt::format("{}: cannot be created: {}. Finished results are kept; rerun the same command to continue.",
                      file.string(), std::strerror(error)));
    }
    if (lstat(file.c_str(), &there) != 0 || there.st_ino != own()) {  // else NFS sent the request twice
      folder.claimed(unit, {wanted.number, there.st_ino});
      return false;
    }
  }
  folder.claimed(unit, wanted);
  return true;
}

bool JobStore::claim(const std::string& unit) const {
  const std::lock_guard lock(work_->turn);
  return work_->claim(unit);
}

void JobStore::release(const std::string& unit) const {
  const std::lock_guard lock(work_->turn);
  const JobFolder::Claim claim = work_->folder.claim_of(unit);
  if (claim.inode == work_->own()) {
    std::error_code ignored;
    fs::remove(work_->folder.claim_file(unit, claim.number), ignored);
    work_->folder.claimed(unit, {claim.number - 1, 0});
  }
}

const JobFolder::Pack* JobStore::Work::other() const {
  for (const JobFolder::Pack& pack : folder.packs()) {
    if (pack.lives && !pack.gone && pack.inode != own()) {
      return &pack;
    }
  }
  return nullptr;
}

std::optional<std::string> JobStore::other_worker() const {
  const std::lock_guard lock(work_->turn);
  work_->folder.refresh(work_->own());
  const JobFolder::Pack* other = work_->other();
  return other != nullptr ? std::optional(name_of(other->writer)) : std::nullopt;
}

// One result at a time is in memory.
void JobStore::Work::merge(const std::string& dropped) {
  AtomicFile whole(folder.merged());
  std::ofstream out(whole.path(), std::ios::binary | std::ios::trunc);
  out << pack_head("{}");
  for (const std::string& key : folder.keys()) {
    const std::string label = folder.label_of(key);
    if (!dropped.empty() && label.starts_with(dropped)) {
      continue;
    }
    if (const std::optional<std::string> text = folder.text_of(key, own())) {
      out << pack_entry(key, label, *text);
    }
  }
  out << kPackEnd;
  out.close();
  const int descriptor = ::open(whole.path().c_str(), O_RDONLY | O_CLOEXEC);
  const bool written = out && descriptor >= 0 && fsync(descriptor) == 0;
  close(descriptor);
  whole.commit(written, " Finished results are kept; rerun the same command to continue.");
  std::error_code ignored;
  std::set<std::uint64_t> merged;
  for (const JobFolder::Pack& pack : folder.packs()) {
    const bool finished = !pack.lives || pack.inode == own();
    if (&pack != &folder.packs().front() && !pack.gone && finished) {
      merged.insert(pack.inode);
      fs::remove(pack.path, ignored);
    }
  }
  for (const auto& entry : fs::directory_iterator(folder.work(), ignored)) {
    struct stat file {};
    if (lstat(entry.path().c_str(), &file) == 0 && merged.contains(file.st_ino)) {
      fs::remove(entry.path(), ignored);  // their claims
    }
  }
  fs::remove(folder.work(), ignored);  // unless another process has begun meanwhile
  worker.reset();
  folder.refresh(0);
}

void JobStore::drop(const std::string& label) const {
  const std::lock_guard lock(work_->turn);
  JobFolder& folder = work_->folder;
  const std::vector<std::string> keys = folder.keys();
  if (std::none_of(keys.begin(), keys.end(),
                   [&](const auto& key) { return folder.label_of(key).starts_with(label); })) {
    return;
  }
  folder.refresh(work_->own());
  const JobFolder::Pack* other = work_->other();
  refuse_if(other != nullptr || !work_->claim(kMergeUnit), {path_.string(), 0, ""},
            fmt::format("another process works on this {}{}; wait for it.", kind_.what,
                        other != nullptr ? fmt::format(" ({})", name_of(other->writer)) : ""));
  work_->merge(label);
}

void JobStore::finish() const {
  const std::lock_guard lock(work_->turn);
  Work& work = *work_;
  if (work.worker != nullptr) {
    work.worker->finish();
  }
  if (sharing_.farm != nullptr && sharing_.farm->rank() > 0) {
    throw ShardFinished();
  }
  const auto until = std::chrono::steady_clock::now() + kMergeWait;
  for (;;) {
    work.folder.refresh(work.own());
    const std::vector<JobFolder::Pack>& packs = work.folder.packs();
    if (std::none_of(packs.begin() + 1, packs.end(), [](const JobFolder::Pack& pack) { return !pack.gone; })) {
      work.worker.reset();
      std::error_code ignored;
      fs::remove(work.folder.work(), ignored);  // server_time_s() here may have kept the merger from it
      return;
    }
    if (work.other() == nullptr) {
      const JobFolder::Claim claim = work.folder.claim_of(kMergeUnit);
      const JobFolder::Pack* owner = claim.number < 0 ? nullptr : work.folder.pack_of(claim.inode);
      const bool merging = owner != nullptr && owner->inode != work.own() &&
                           lives(owner->path, owner->writer, server_time_s(work.folder.work()));
      if (!merging && work.claim(kMergeUnit)) {
        work.merge("");
        return;
      }
    } else if (std::chrono::steady_clock::now() > until) {
      return;  // it has other jobs of this study, and will merge
    }
    std::this_thread::sleep_for(kMergePoll);
  }
}

}  // namespace epsim
