#include "sim/core/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace epsim {
namespace {

const char* refused_kind(mode_t mode) {
  return S_ISREG(mode)    ? nullptr
         : S_ISDIR(mode)  ? "this is a folder, not a file."
         : S_ISFIFO(mode) ? "this is a pipe, not a file; write its output to a file first."
                          : "this is a device or a socket, not a file.";
}

}  // namespace

InputFileHandle::InputFileHandle(const std::filesystem::path& file) {
  const InputPlace place{file.string(), 0, ""};
  descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) {
    throw InputError(place, errno == ENOENT || errno == ENOTDIR
                                ? "there is no such file."
                                : fmt::format("the file cannot be opened: {}.", std::strerror(errno)));
  }
  struct stat about {};
  const char* refused = fstat(descriptor_, &about) == 0 ? refused_kind(about.st_mode) : "the file cannot be read.";
  if (refused != nullptr) {
    close(descriptor_);
    throw InputError(place, refused);
  }
  bytes_ = about.st_size;
}

InputFileHandle::~InputFileHandle() {
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

int InputFileHandle::release() { return std::exchange(descriptor_, -1); }

std::int64_t check_input_file(const std::filesystem::path& file) { return InputFileHandle(file).bytes(); }

}  // namespace epsim
