#include "sim/core/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "sim/core/error.h"

namespace epsim {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  if (!fs::exists(file)) {
    throw InputError({file.string(), 0, ""}, "there is no such file.");
  }
  if (fs::is_directory(file)) {
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

OutputFolder::OutputFolder(fs::path target, bool overwrite, std::string marker) : target_(std::move(target)) {
  while (!target_.has_filename() && target_.has_parent_path() && target_ != target_.root_path()) {
    target_ = target_.parent_path();  // "out/" names the same folder as "out"
  }
  const InputPlace at{target_.string(), 0, ""};
  std::error_code failed;
  if (fs::exists(target_)) {
    if (!fs::is_directory(target_)) {
      throw InputError(at, "the output folder's name is taken by a file.");
    }
    const bool ours = fs::is_empty(target_) || fs::exists(target_ / marker);
    if (!overwrite && !fs::is_empty(target_)) {
      throw InputError(at, "the output folder exists; name another, or add --overwrite to replace it.");
    }
    if (!ours) {
      throw InputError(at, fmt::format("this folder holds no {}, so it is not one of our outputs and --overwrite will "
                                       "not replace it; name another.",
                                       marker));
    }
  }
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  fs::create_directories(parent, failed);
  temporary_ = parent / fmt::format(".{}.partial-{}", target_.filename().string(), getpid());
  if (!failed) {
    fs::create_directory(temporary_, failed);
  }
  if (failed) {
    throw InputError(at, fmt::format("the output folder cannot be made there: {}.", failed.message()));
  }
}

void OutputFolder::commit() {
  std::error_code failed;
  fs::path old = temporary_;
  old += ".old";
  if (fs::exists(target_)) {
    fs::rename(target_, old, failed);
  }
  if (!failed) {
    fs::rename(temporary_, target_, failed);
  }
  if (failed) {
    throw RunFailed(
        fmt::format("{}: the finished output cannot be moved there: {}.", target_.string(), failed.message()));
  }
  committed_ = true;
  std::error_code ignored;
  fs::remove_all(old, ignored);
}

OutputFolder::~OutputFolder() {
  if (!committed_) {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
}

}  // namespace epsim
