#include "sim/app/work_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/fingerprint.h"

namespace epsim::app {

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

InputFile describe_file(const fs::path& file) {
  const std::string content = read_file(file);
  Fingerprint hash;
  hash.add(std::string_view(content));
  return {fs::absolute(file).lexically_normal().string(), static_cast<std::int64_t>(content.size()), hash.hex()};
}

WorkFolder::WorkFolder(const fs::path& target, const WorkKind& kind, const std::string& manifest, bool overwrite)
    : kind_(kind), path_(target) {
  std::error_code ignored;
  const bool ours = fs::exists(path_ / kind_.manifest, ignored);
  if (ours) {
    take_lock();
  }
  if (!ours || overwrite) {
    OutputFolder fresh(target, overwrite, kind_.manifest);
    path_ = fresh.target();
    fs::create_directories(fresh.path() / kind_.parts);
    write_file_atomically(fresh.path() / kind_.manifest, manifest);
    fresh.commit();
    take_lock();
  }
  check_manifest(manifest);
  remove_leftovers();
}

bool holds_work(const fs::path& folder, const WorkKind& kind, const std::string& manifest) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kind.manifest, ignored)) {
    return false;
  }
  const Json before = Json::parse(read_file((folder / kind.manifest).string()), nullptr, false);
  return before == Json::parse(manifest);
}

WorkFolder::~WorkFolder() {
  if (lock_ >= 0) {
    close(lock_);
  }
}

// A lock on the folder itself: it leaves no file behind, and ends with the process however that ends.
void WorkFolder::take_lock() {
  if (lock_ >= 0) {
    close(lock_);
  }
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    throw InputError({path_.string(), 0, ""},
                     fmt::format("another process works on this {}; wait for it, or name another folder.", kind_.what));
  }
}

void WorkFolder::check_manifest(const std::string& manifest) const {
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
void WorkFolder::remove_leftovers() const {
  std::error_code ignored;
  fs::create_directories(path_ / kind_.parts, ignored);
  for (const fs::path& folder : {path_, path_ / kind_.parts}) {
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

fs::path WorkFolder::file_of(const std::string& part) const { return path_ / kind_.parts / (part + ".json"); }

std::optional<std::string> WorkFolder::load(const std::string& part) const {
  std::error_code ignored;
  return fs::exists(file_of(part), ignored) ? std::optional(read_file(file_of(part))) : std::nullopt;
}

void WorkFolder::save(const std::string& part, const std::string& text) const {
  write_file_atomically(file_of(part), text);
}

}  // namespace epsim::app
