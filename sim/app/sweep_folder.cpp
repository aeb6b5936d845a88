#include "sim/app/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/fingerprint.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kManifest = "sweep.json";
constexpr const char* kPoints = "points";
constexpr int kFormat = 1;  // of a point's file

std::string dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json json_of(const ResultTable& table) {
  Json out{{"table", table.name}, {"columns", Json::array()}, {"text_columns", Json::array()}, {"rows", table.rows}};
  for (const ResultColumn& column : table.columns) {
    out["columns"].push_back(column.name);
    if (column.text) {
      out["text_columns"].push_back(column.name);
    }
  }
  return out;
}

ResultTable table_of(const Json& json) {
  ResultTable out{json.at("table"), {}, json.at("rows")};
  const std::vector<std::string> text = json.at("text_columns");
  for (const std::string column : json.at("columns")) {
    out.columns.push_back({column, std::find(text.begin(), text.end(), column) != text.end()});
  }
  return out;
}

SweepPoint point_of(const Json& json, std::size_t index) {
  SweepPoint out;
  out.index = json.at("point");
  if (json.at("format") != kFormat || out.index != index) {
    throw std::invalid_argument("another format, or another point");
  }
  out.error = json.at("error").is_null() ? "" : json.at("error");
  for (const Json& file : json.at("inputs")) {
    out.inputs.push_back({file.at("file_name"), file.at("size_bytes"), file.at("content_hash")});
  }
  for (const Json& table : json.at("tables")) {
    out.tables.push_back(table_of(table));
  }
  return out;
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

SweepFolder::SweepFolder(const fs::path& target, const std::string& manifest, bool overwrite) : path_(target) {
  std::error_code ignored;
  const bool ours = fs::exists(path_ / kManifest, ignored);
  if (ours) {
    take_lock();
  }
  if (!ours || overwrite) {
    OutputFolder fresh(target, overwrite, kManifest);
    path_ = fresh.target();
    fs::create_directories(fresh.path() / kPoints);
    write_file_atomically(fresh.path() / kManifest, manifest);
    fresh.commit();
    take_lock();
  }
  check_manifest(manifest);
  remove_leftovers();
}

SweepFolder::~SweepFolder() {
  if (lock_ >= 0) {
    close(lock_);
  }
}

// A lock on the folder itself: it leaves no file behind, and ends with the process however that ends.
void SweepFolder::take_lock() {
  if (lock_ >= 0) {
    close(lock_);
  }
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    throw InputError({path_.string(), 0, ""},
                     "another process works on this sweep; wait for it, or name another folder.");
  }
}

void SweepFolder::check_manifest(const std::string& manifest) const {
  const std::string file = (path_ / kManifest).string();
  Json before;
  try {
    before = Json::parse(read_file(file));
  } catch (const Json::exception&) {
    throw InputError({file, 0, ""}, "this is not the description of a sweep; add --overwrite to start anew.");
  }
  const Json now = Json::parse(manifest);
  if (before != now) {
    throw InputError({file, 0, ""},
                     fmt::format("the folder holds a sweep with other inputs: {}. Name another folder, or "
                                 "add --overwrite to start anew.",
                                 differences(before, now)));
  }
}

// Temporary files of a process that was killed while it wrote.
void SweepFolder::remove_leftovers() const {
  std::error_code ignored;
  fs::create_directories(path_ / kPoints, ignored);
  for (const fs::path& folder : {path_, path_ / kPoints}) {
    std::vector<fs::path> left;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename().string().find(".tmp") != std::string::npos) {
        left.push_back(entry.path());
      }
    }
    for (const fs::path& file : left) {
      fs::remove(file, ignored);
    }
  }
}

fs::path SweepFolder::point_file(std::size_t index) const { return path_ / kPoints / fmt::format("{:06}.json", index); }

std::optional<SweepPoint> SweepFolder::load(std::size_t index) {
  const fs::path file = point_file(index);
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    return std::nullopt;
  }
  SweepPoint point;
  try {
    point = point_of(Json::parse(read_file(file)), index);
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
  check_inputs(point);
  return point;
}

void SweepFolder::check_inputs(const SweepPoint& point) {
  for (const InputFile& input : point.inputs) {
    auto known = std::find_if(seen_.begin(), seen_.end(), [&](const InputFile& f) { return f.name == input.name; });
    if (known == seen_.end()) {
      seen_.push_back(describe_file(input.name));
      known = seen_.end() - 1;
    }
    if (known->hash != input.hash) {
      throw InputError({input.name, 0, ""},
                       fmt::format("the file has changed since point {} of this sweep read it. Name "
                                   "another folder, or add --overwrite to start anew.",
                                   point.index));
    }
  }
}

void SweepFolder::save(const SweepPoint& point) const {
  Json out{{"format", kFormat}, {"point", point.index}};
  out["error"] = point.error.empty() ? Json(nullptr) : Json(point.error);
  out["inputs"] = Json::array();
  for (const InputFile& file : point.inputs) {
    out["inputs"].push_back({{"file_name", file.name}, {"size_bytes", file.bytes}, {"content_hash", file.hash}});
  }
  out["tables"] = Json::array();
  for (const ResultTable& table : point.tables) {
    out["tables"].push_back(json_of(table));
  }
  write_file_atomically(point_file(point.index), dump(out));
}

}  // namespace epsim::app
