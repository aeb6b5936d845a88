#include "sim/study/job_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/files.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

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
          out.push_back(fmt::format("{} was {} and is {}", key.substr(1), was, is));
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

JobStore::JobStore(const fs::path& target, const StoreKind& kind, const std::string& manifest, bool overwrite)
    : kind_(kind), path_(target) {
  std::error_code ignored;
  const bool ours = fs::exists(path_ / kind_.manifest, ignored);
  if (ours) {
    take_lock();
  }
  if (!ours || overwrite) {
    OutputFolder fresh(target, overwrite, kind_.manifest);
    path_ = fresh.target();
    fs::create_directories(fresh.path() / kind_.jobs);
    write_file_atomically(fresh.path() / kind_.manifest, manifest);
    fresh.commit();
    take_lock();
  }
  check_manifest(manifest);
  remove_leftovers();
}

bool holds_study(const fs::path& folder, const StoreKind& kind, const std::string& manifest) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kind.manifest, ignored)) {
    return false;
  }
  const Json before = Json::parse(read_file((folder / kind.manifest).string()), nullptr, false);
  return before == Json::parse(manifest);
}

void JobStore::Lock::release() {
  if (descriptor >= 0) {
    close(descriptor);
  }
}

// A lock on the folder itself: it leaves no file behind, and ends with the process however that ends.
void JobStore::take_lock() {
  lock_.release();
  lock_.descriptor = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_.descriptor < 0 || flock(lock_.descriptor, LOCK_EX | LOCK_NB) != 0) {
    throw InputError({path_.string(), 0, ""},
                     fmt::format("another process works on this {}; wait for it, or name another folder.", kind_.what));
  }
}

void JobStore::check_manifest(const std::string& manifest) const {
  const std::string file = (path_ / kind_.manifest).string();
  Json before;
  try {
    before = Json::parse(read_file(file));
  } catch (const Json::exception&) {
    throw InputError({file, 0, ""},
                     fmt::format("this is not the description of a {}; add --overwrite to start anew.", kind_.what));
  }
  const Json now = Json::parse(manifest);
  if (before != now) {
    throw InputError({file, 0, ""}, fmt::format("the folder holds a {} with other inputs: {}. Name another folder, or "
                                                "add --overwrite to start anew.",
                                                kind_.what, differences(before, now)));
  }
}

// Temporary files and folders (OutputFolder's) of a process that was killed while it wrote.
void JobStore::remove_leftovers() const {
  std::error_code ignored;
  fs::create_directories(path_ / kind_.jobs, ignored);
  for (const fs::path& folder : {path_, path_ / kind_.jobs}) {
    std::vector<fs::path> left;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      // Folders by the whole form of their names: a reader's own is not to go with them.
      const bool ours = entry.is_directory() ? name.front() == '.' && name.find(".partial-") != std::string::npos
                                             : name.find(".tmp") != std::string::npos;
      if (ours) {
        left.push_back(entry.path());
      }
    }
    for (const fs::path& one : left) {
      fs::remove_all(one, ignored);
    }
  }
}

fs::path JobStore::file_of(const std::string& key) const { return path_ / kind_.jobs / (key + ".json"); }

std::optional<std::string> JobStore::load(const std::string& key) const {
  std::error_code ignored;
  return fs::exists(file_of(key), ignored) ? std::optional(read_file(file_of(key))) : std::nullopt;
}

void JobStore::save(const std::string& key, const std::string& text) const {
  write_file_atomically(file_of(key), text);
}

}  // namespace epsim
