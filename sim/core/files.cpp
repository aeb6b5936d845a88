#include "sim/core/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "sim/core/error.h"
#include "sim/core/fingerprint.h"
#include "sim/core/input_file.h"
#include "sim/core/refuse.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

// Gives the file's bytes to `take`, piece by piece.
template <class Take>
void read_pieces(const InputFileHandle& file, const std::string& name, Take take) {
  std::string piece(std::size_t{1} << 20, '\0');
  for (ssize_t got = 1; got > 0;) {
    got = read(file.descriptor(), piece.data(), piece.size());
    if (got < 0 && errno != EINTR) {
      throw InputError({name, 0, ""}, fmt::format("the file cannot be read: {}.", std::strerror(errno)));
    }
    take(std::string_view(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
    got = got < 0 ? 1 : got;
  }
}

}  // namespace

std::string read_file(const fs::path& file, const Limit& most) {
  const InputFileHandle in(file);
  const InputPlace place{file.string(), 0, ""};
  check_limit(most, in.bytes(), place);
  std::string text;
  text.reserve(static_cast<std::size_t>(in.bytes()));
  read_pieces(in, place.file, [&](std::string_view piece) {
    text.append(piece);
    check_limit(most, std::ssize(text), place);  // it may grow meanwhile
  });
  return text;
}

void check_utf8(std::string_view text, const InputPlace& place) {
  using namespace std::string_view_literals;
  const bool marked = text.starts_with("\xFF\xFE"sv) || text.starts_with("\xFE\xFF"sv);
  refuse_if(marked || text.find('\0') != std::string_view::npos, place,
            marked || text.starts_with("\0\0\xFE\xFF"sv) ? "the text is in UTF-16 or UTF-32; save it in UTF-8."
                                                         : "this is not text in UTF-8: it has bytes of value 0.");
}

std::string read_document(const fs::path& file) {
  std::string text = read_file(file, limits::kDocumentBytes);
  check_utf8(text, {file.string(), 0, ""});
  return text;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  const InputPlace place{folder.string(), 0, ""};
  std::vector<fs::path> out;
  std::error_code failed, ignored;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (entry->is_regular_file(ignored)) {
      out.push_back(entry->path());
      check_limit(limits::kFolderFiles, std::ssize(out), place);
    }
  }
  if (failed) {
    throw InputError(place, fmt::format("the folder cannot be read: {}.", failed.message()));
  }
  std::sort(out.begin(), out.end());
  return out;
}

namespace {

InputFile describe_folder(const fs::path& folder) {
  InputFile out{fs::absolute(folder).lexically_normal().string(), 0, ""};
  Fingerprint hash;
  for (const fs::path& file : files_in(folder)) {
    const InputFile one = describe_file(file);
    out.bytes += one.bytes;
    hash.add(std::string_view(file.filename().native()));
    hash.add(std::string_view(one.hash));
  }
  out.hash = hash.hex();
  return out;
}

}  // namespace

InputFile describe_file(const fs::path& file) {
  if (std::error_code ignored; fs::is_directory(file, ignored)) {
    return describe_folder(file);
  }
  const InputFileHandle in(file);
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(in.bytes()));
  std::int64_t bytes = 0;
  read_pieces(in, file.string(), [&](std::string_view piece) {
    bytes += std::ssize(piece);
    for (const char c : piece) {
      hash.add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    }
  });
  refuse_if(bytes != in.bytes(), {file.string(), 0, ""}, "the file changes while it is read.");
  return {fs::absolute(file).lexically_normal().string(), bytes, hash.hex()};
}

fs::path program_file() {
  // The kernel's list of mapped files: "from-to flags offset device inode path", addresses in hexadecimal.
  const auto here = reinterpret_cast<std::uintptr_t>(&program_file);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    const char* end = line.data() + line.size();
    const char* dash = std::from_chars(line.data(), end, from, 16).ptr;
    const std::size_t path = line.find('/');
    if (dash != end && std::from_chars(dash + 1, end, to, 16).ec == std::errc() && from <= here && here < to &&
        path != std::string::npos && fs::exists(line.substr(path))) {
      return line.substr(path);
    }
  }
  return "/proc/self/exe";  // its file was replaced meanwhile
}

fs::path shipped_file(const std::string& name) {
  std::error_code none;
  if (name.empty() || fs::exists(name, none)) {
    return name;
  }
  for (fs::path above = program_file().parent_path(); above != above.root_path(); above = above.parent_path()) {
    if (fs::path shipped = above / "share/epsim" / name; fs::exists(shipped, none)) {
      return shipped;
    }
  }
  return name;
}

fs::path own_file(const std::string& name) {
  fs::path file = shipped_file(name);
  if (std::error_code none; !fs::exists(file, none)) {
    throw InputError({name, 0, ""},
                     "this file is epsim's own, and neither the working folder nor epsim's installation has it; run in "
                     "epsim's checkout, or install epsim with cmake --install.");
  }
  return file;
}

std::string host_name() {
  std::string name(256, '\0');
  gethostname(name.data(), name.size() - 1);
  name.resize(std::strlen(name.c_str()));
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '.'; }, '_');
  return name.empty() ? "host" : name;
}

AtomicFile::AtomicFile(const fs::path& target) : target_(target), temporary_(target) {
  temporary_ +=
      fmt::format(".tmp{}-{}", getpid(), host_name());  // of this process alone, in a folder of several machines
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  fs::remove(temporary_, ignored);  // after commit() there is none
}

void AtomicFile::commit(bool written, const std::string& advice) {
  std::error_code failed;
  if (written) {
    fs::rename(temporary_, target_, failed);
  }
  if (!written || failed) {
    throw RunFailed(
        fmt::format("{}: cannot be written; is the disk full, or the folder read-only?{}", target_.string(), advice));
  }
}

void write_file_atomically(const fs::path& file, const std::string& content) {
  AtomicFile whole(file);
  std::ofstream out(whole.path(), std::ios::binary | std::ios::trunc);
  out << content;
  out.close();
  whole.commit(!out.fail());
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

// Temporary folders of the same target: a process that writes one holds a lock on it, and is named; what a killed
// process left goes.
void release_others(const fs::path& parent, const std::string& begin, const InputPlace& at) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(parent)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin)) {
      continue;
    }
    const int held = open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool lives = held >= 0 && flock(held, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (held >= 0) {
      close(held);
    }
    if (lives) {
      throw OutputBusy(at, fmt::format("process {} is writing this output; wait for it, or name another folder.",
                                       name.substr(begin.size())));
    }
    left.push_back(entry.path());
  }
  std::error_code ignored;
  for (const fs::path& one : left) {
    fs::remove_all(one, ignored);
  }
}

}  // namespace

OutputFolder::OutputFolder(const fs::path& target, bool overwrite, std::string marker)
    : target_(full_name(target)), overwrite_(overwrite) {
  const InputPlace at{target.string(), 0, ""};
  refuse_if(target_.empty(), at, "the output folder's name is empty.");
  std::error_code failed;
  refuse_if(fs::exists(target_, failed) && !fs::is_directory(target_, failed), at,
            "the output folder's name is taken by a file.");
  refuse_if(taken(target_) && !overwrite, at,
            "the output folder exists; name another, or add --overwrite to replace it.");
  refuse_if(
      taken(target_) && !fs::exists(target_ / marker, failed), at,
      fmt::format(
          "this folder holds no {}, so it is not one of our outputs and --overwrite will not replace it; name another.",
          marker));
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  fs::create_directories(parent, failed);
  const std::string begin = fmt::format(".{}.partial-", target_.filename().string());
  temporary_ = parent / fmt::format("{}{}", begin, getpid());
  const fs::path fresh = parent / fmt::format(".{}.begun-{}", target_.filename().string(), getpid());
  if (!failed) {
    release_others(parent, begin, at);
    fs::remove_all(fresh, failed);
    fs::create_directory(fresh, failed);
  }
  if (!failed) {  // locked before it has the name that others look for
    lock_ = open(fresh.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    flock(lock_, LOCK_EX | LOCK_NB);
    fs::rename(fresh, temporary_, failed);
  }
  if (failed) {
    unlock();
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw InputError(at, fmt::format("the output folder cannot be made there: {}.", failed.message()));
  }
}

void OutputFolder::unlock() {
  if (lock_ >= 0) {
    close(std::exchange(lock_, -1));
  }
}

void OutputFolder::commit() {
  if (taken(target_) && !overwrite_) {
    throw RunFailed(fmt::format("{}: another run has put its output there meanwhile.", target_.string()));
  }
  std::error_code failed, ignored;
  fs::path old = temporary_;
  // In one step where the file system can: what a kill leaves is the old output or the new one.
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0) {
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
  }
  if (failed) {
    throw RunFailed(fmt::format("{}: the output cannot be moved there: {}{}.", target_.string(), failed.message(),
                                failed == std::errc::device_or_resource_busy
                                    ? "; a file system is mounted on this folder: name one below it"
                                    : ""));
  }
  committed_ = true;
  unlock();
  fs::remove_all(old, ignored);
}

OutputFolder::~OutputFolder() {
  unlock();
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
