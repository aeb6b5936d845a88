#include "sim/study/job_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "sim/core/check.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPack = ".pack", kClaim = ".claim";
constexpr std::size_t kMostOpen = 200;  // descriptors

// "UNIT.N.claim"; no unit when the name is another's.
std::pair<std::string, int> parse_claim(std::string_view name) {
  name.remove_suffix(kClaim.size());
  const std::size_t dot = name.rfind('.');
  int number = 0;
  if (dot == std::string_view::npos ||
      std::from_chars(name.data() + dot + 1, name.data() + name.size(), number).ptr != name.data() + name.size()) {
    return {};
  }
  return {std::string(name.substr(0, dot)), number};
}

}  // namespace

JobFolder::JobFolder(fs::path folder, const std::string& jobs) : work_(folder / jobs) {
  packs_.push_back({std::move(folder) / (jobs + std::string(kPack)), 0, {}, {}});
}

JobFolder::~JobFolder() {
  for (const auto& [unused, descriptor] : open_) {
    close(descriptor);
  }
}

// Inodes come with the names: which process has a claim costs no further look.
void JobFolder::list() {
  claims_.clear();
  std::vector<std::pair<std::string, std::uint64_t>> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(work_.c_str()), closedir);
  for (const dirent* entry = nullptr; folder != nullptr && (entry = readdir(folder.get())) != nullptr;) {
    const std::string_view name = entry->d_name;
    if (name.ends_with(kPack)) {
      found.emplace_back(name, entry->d_ino);
    } else if (name.ends_with(kClaim)) {
      const auto [unit, number] = parse_claim(name);
      if (Claim& known = claims_[unit]; number > known.number) {
        known = {number, entry->d_ino};
      }
    }
  }
  for (const auto& [unit, claim] : claims_) {  // the file that a claim is a link to may have lost its own name
    if (std::none_of(found.begin(), found.end(),
                     [inode = claim.inode](const auto& pack) { return pack.second == inode; })) {
      found.emplace_back(claim_file(unit, claim.number).filename().string(), claim.inode);
    }
  }
  std::sort(found.begin(), found.end());
  for (std::size_t p = 1; p < packs_.size(); ++p) {
    const std::pair<std::string, std::uint64_t> known{packs_[p].path.filename().string(), packs_[p].inode};
    if (!packs_[p].gone && !std::binary_search(found.begin(), found.end(), known)) {
      packs_[p].gone = true;
      packs_.front().inode = 0;  // its results are in the merged file, which is read again
    }
  }
  for (const auto& [name, inode] : found) {
    if (pack_of(inode) == nullptr) {
      packs_.push_back({work_ / name, inode, {}, {}});
    }
  }
}

void JobFolder::refresh(std::uint64_t own) {
  list();
  double now = 0;
  const std::string boot = this_process().boot;
  for (std::size_t p = 1; p < packs_.size(); ++p) {
    Pack& pack = packs_[p];
    if (pack.gone || pack.scan.ended || pack.inode == own) {
      pack.lives = pack.inode == own;
      continue;
    }
    if (pack.writer.host.empty()) {
      scan(p, false);
    }
    if (now == 0 && !(pack.writer.locked && pack.writer.boot == boot)) {
      now = server_time_s(work_);
    }
    // First whether it lives, then what it has: what a dead process has is then complete.
    pack.lives = epsim::lives(pack.path, pack.writer, now);
    scan(p, !pack.lives);
    pack.lives = pack.lives && !pack.scan.ended;
  }
  scan_merged();
}

void JobFolder::scan(std::size_t p, bool skip_damaged) {
  Pack& pack = packs_[p];
  const int descriptor = open(pack.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    return;  // the next list() says that it is gone
  }
  scan_pack(descriptor, pack.scan, skip_damaged, [&](const PackedJob& job) { insert(p, job); });
  close(descriptor);
  if (pack.writer.host.empty()) {
    pack.writer = worker_in(pack.scan.writer);
  }
}

// After the others: a file that was merged meanwhile is gone from there, and in this one.
void JobFolder::scan_merged() {
  Pack& pack = packs_.front();
  struct stat file {};
  if (stat(pack.path.c_str(), &file) != 0 ||
      (file.st_ino == pack.inode && static_cast<std::uint64_t>(file.st_size) == merged_bytes_ &&
       file.st_mtim.tv_sec == merged_at_.tv_sec && file.st_mtim.tv_nsec == merged_at_.tv_nsec)) {
    return;
  }
  merged_bytes_ = static_cast<std::uint64_t>(file.st_size);
  merged_at_ = file.st_mtim;
  if (const auto known = open_.find(0); known != open_.end()) {
    close(known->second);
    open_.erase(known);
  }
  pack = {pack.path, file.st_ino, {}, {}};
  std::erase_if(index_, [](const auto& entry) { return entry.second.pack == 0; });
  scan(0, true);
}

// Results of processes go before merged ones, which are older; of two processes that ran a job the first is kept.
void JobFolder::insert(std::size_t pack, const PackedJob& job) {
  const auto found = std::find(labels_.begin(), labels_.end(), job.label);
  const auto label = static_cast<std::uint32_t>(found - labels_.begin());
  if (found == labels_.end()) {
    labels_.push_back(job.label);
  }
  const Place place{static_cast<std::uint32_t>(pack), label, job.at, job.bytes, job.hash};
  const auto [at, added] = index_.try_emplace(job.key, place);
  if (added) {
    return;
  }
  const std::uint32_t before = at->second.pack;
  if (packs_[before].gone || (pack != 0 && before == 0)) {
    at->second = place;
  }
}

void JobFolder::add(const PackedJob& job, std::uint64_t own) {
  const Pack* pack = pack_of(own);
  EPSIM_CHECK(pack != nullptr, "a process knows its own file");
  index_.erase(job.key);
  insert(static_cast<std::size_t>(pack - packs_.data()), job);
}

std::vector<std::string> JobFolder::keys() const {
  std::vector<std::string> out;
  out.reserve(index_.size());
  for (const auto& [key, unused] : index_) {
    out.push_back(key);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string JobFolder::label_of(const std::string& key) const {
  const auto found = index_.find(key);
  return found != index_.end() ? labels_[found->second.label] : "";
}

int JobFolder::descriptor_of(std::size_t pack) {
  if (const auto known = open_.find(pack); known != open_.end()) {
    return known->second;
  }
  if (open_.size() >= kMostOpen) {
    close(open_.begin()->second);
    open_.erase(open_.begin());
  }
  const int descriptor = open(packs_[pack].path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    open_[pack] = descriptor;
  }
  return descriptor;
}

std::optional<std::string> JobFolder::text_of(const std::string& key, std::uint64_t own) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto found = index_.find(key);
    if (found == index_.end()) {
      return std::nullopt;
    }
    const Place& place = found->second;
    const int descriptor = descriptor_of(place.pack);
    if (std::optional<std::string> text = read_packed(descriptor, {key, "", place.at, place.bytes, place.hash})) {
      return text;
    }
    refresh(own);  // it may have been merged
  }
  forget(key);
  return std::nullopt;
}

JobFolder::Claim JobFolder::claim_of(const std::string& unit) const {
  const auto found = claims_.find(unit);
  return found != claims_.end() ? found->second : Claim{};
}

fs::path JobFolder::claim_file(const std::string& unit, int number) const {
  return work_ / fmt::format("{}.{}{}", unit, number, kClaim);
}

const JobFolder::Pack* JobFolder::pack_of(std::uint64_t inode) const {
  const auto found = std::find_if(packs_.begin() + 1, packs_.end(),
                                  [&](const Pack& pack) { return pack.inode == inode && !pack.gone; });
  return found != packs_.end() ? &*found : nullptr;
}

}  // namespace epsim
