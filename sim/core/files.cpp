#include "sim/core/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "sim/core/error.h"
#include "sim/core/fingerprint.h"

namespace epsim {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    throw InputError({file.string(), 0, ""}, "there is no such file.");
  }
  if (fs::is_directory(file, ignored)) {
    throw InputError({file.string(), 0, ""}, "this is a folder, not a file.");
  }
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) {
    throw InputError({file.string(), 0, ""}, "the file cannot be read.");
  }
  return text.str();
}

InputFile describe_file(const fs::path& file) {
  const std::string content = read_file(file);
  Fingerprint hash;
  hash.add(std::string_view(content));
  return {fs::absolute(file).lexically_normal().string(), static_cast<std::int64_t>(content.size()), hash.hex()};
}

void write_file_atomically(const fs::path& file, const std::string& content) {
  fs::path temporary = file;
  temporary += fmt::format(".tmp{}", getpid());
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  std::error_code failed;
  if (out) {
    fs::rename(temporary, file, failed);
  }
  if (!out || failed) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw RunFailed(fmt::format("{}: cannot be written; is the disk full, or the folder read-only?", file.string()));
  }
}

namespace {

// "out/" and "out/." name the same folder as "out"; one named by dots alone gets its full name, so that it has a
// parent.
fs::path full_name(const fs::path& target) {
  fs::path name = target.lexically_normal();
  if (name == "." || name == "./" || name.filename() == ".." || name.parent_path().filename() == "..") {
    name = fs::absolute(name).lexically_normal();
  }
  return name.has_filename() ? name : name.parent_path();
}

bool taken(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder, ignored) && !(fs::is_directory(folder, ignored) && fs::is_empty(folder, ignored));
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& target, bool overwrite, std::string marker)
    : target_(full_name(target)), overwrite_(overwrite) {
  const InputPlace at{target.string(), 0, ""};
  if (target_.empty()) {
    throw InputError(at, "the output folder's name is empty.");
  }
  std::error_code failed;
  if (fs::exists(target_, failed) && !fs::is_directory(target_, failed)) {
    throw InputError(at, "the output folder's name is taken by a file.");
  }
  if (taken(target_) && !overwrite) {
    throw InputError(at, "the output folder exists; name another, or add --overwrite to replace it.");
  }
  if (taken(target_) && !fs::exists(target_ / marker, failed)) {
    throw InputError(at, fmt::format("this folder holds no {}, so it is not one of our outputs and --overwrite will "
                                     "not replace it; name another.",
                                     marker));
  }
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  fs::create_directories(parent, failed);
  temporary_ = parent / fmt::format(".{}.partial-{}", target_.filename().string(), getpid());
  if (!failed) {
    fs::remove_all(temporary_, failed);  // of a run that was killed and had the same process number
    fs::create_directory(temporary_, failed);
  }
  if (failed) {
    throw InputError(at, fmt::format("the output folder cannot be made there: {}.", failed.message()));
  }
}

void OutputFolder::commit() {
  if (taken(target_) && !overwrite_) {
    throw RunFailed(fmt::format("{}: another run has put its output there meanwhile.", target_.string()));
  }
  std::error_code failed, ignored;
  fs::path old = temporary_;
  old += ".old";
  fs::remove_all(old, ignored);
  const bool replaces = fs::exists(target_, ignored);
  if (replaces) {
    fs::rename(target_, old, failed);
  }
  if (!failed) {
    fs::rename(temporary_, target_, failed);
    if (failed && replaces) {
      fs::rename(old, target_, ignored);  // what was there before stays
    }
  }
  if (failed) {
    throw RunFailed(
        fmt::format("{}: the finished output cannot be moved there: {}.", target_.string(), failed.message()));
  }
  committed_ = true;
  fs::remove_all(old, ignored);
}

OutputFolder::~OutputFolder() {
  if (!committed_) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

TemporaryFolder::TemporaryFolder(const std::string& prefix) {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  std::string pattern = (parent / (prefix + "XXXXXX")).string();
  if (failed || mkdtemp(pattern.data()) == nullptr) {
    const std::string why = failed ? "TMPDIR names none" : parent.string() + " is full or read-only";
    throw RunFailed(
        fmt::format("no temporary folder can be made: {}. Set TMPDIR to a folder that can be written.", why));
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace epsim
