#include "policies/plugin/plugin_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <optional>
#include <string_view>

#include "policies/plugin/plugin_answer.h"
#include "policies/plugin/plugin_library.h"
#include "sim/core/error.h"
#include "sim/core/limits.h"

namespace epsim {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMostBytes = limits::kSlots.most * 16;  // a slot alone on its GPU, with its header
constexpr char kResult = 'r', kProblem = 'p';

// An answer on the pipe: its length, a kind, and the bytes. Of a problem, the key ends with a zero.
std::string framed(char kind, const std::string& bytes) {
  const std::uint64_t length = bytes.size() + 1;
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + kind + bytes;
}

void limit_memory() {
  constexpr rlim_t kMore = rlim_t{4} << 30;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMore;
  const rlimit limit = {most, most};
  setrlimit(RLIMIT_AS, &limit);
}

[[noreturn]] void be_child(int out, const std::function<std::string()>& work, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);  // Ctrl-C is the parent's
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  report_plugin_crashes(false);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  limit_memory();
  std::string answer;
  try {
    answer = framed(kResult, work());
  } catch (const PluginProblem& problem) {
    answer = framed(kProblem, problem.key + '\0' + problem.text);
  } catch (const std::exception& e) {
    answer = framed(kProblem, std::string(1, '\0') + e.what());
  }
  std::string_view left = answer;
  while (!left.empty() && getppid() == parent) {
    const ssize_t sent = write(out, left.data(), left.size());
    if (sent <= 0) {
      break;
    }
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  _exit(0);
}

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

// What the child wrote, up to a whole frame; less where it closed the pipe, stopped or took too long.
std::string read_frame(int in, Clock::time_point deadline) {
  std::string got;
  std::uint64_t wanted = sizeof wanted;
  while (got.size() < wanted && Clock::now() < deadline) {
    pollfd ready = {in, POLLIN, 0};
    if (poll(&ready, 1, milliseconds_until(deadline)) <= 0) {
      continue;
    }
    std::string piece(std::min<std::uint64_t>(wanted - got.size(), std::uint64_t{1} << 20), '\0');
    const ssize_t size = read(in, piece.data(), piece.size());
    if (size <= 0) {
      break;
    }
    got.append(piece, 0, static_cast<std::size_t>(size));
    if (got.size() == sizeof wanted) {
      std::uint64_t length = 0;
      std::memcpy(&length, got.data(), sizeof length);
      if (length == 0 || length > kMostBytes) {
        throw PluginProblem{"", "its process sent a damaged answer."};
      }
      wanted += length;
    }
  }
  return got.size() == wanted ? got.substr(sizeof wanted) : "";
}

// The child's end: how it ended by itself before the deadline; nothing where it had to be killed.
std::optional<int> wait_for(pid_t child, Clock::time_point deadline) {
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (Clock::now() >= deadline) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return std::nullopt;
    }
    usleep(500);
  }
  return status;
}

std::string end_in_words(const std::optional<int>& status, Seconds timeout) {
  if (!status) {
    return fmt::format("it did not answer within {:g} s and was ended; `timeout` allows more.", timeout.count());
  }
  if (WIFSIGNALED(*status)) {
    return fmt::format("it crashed: {}.", strsignal(WTERMSIG(*status)));
  }
  return fmt::format("it ended its process (exit code {}) in place of answering.", WEXITSTATUS(*status));
}

}  // namespace

std::string run_in_child(const std::function<std::string()>& work, Seconds timeout) {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(timeout.count()));
  int ends[2];
  std::fflush(nullptr);  // the child's copy of the buffers is not to be written again
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw RunFailed(fmt::format("no pipe for a plug-in's process: {}.", std::strerror(errno)));
  }
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    close(ends[0]);
    be_child(ends[1], work, parent);
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    throw RunFailed(fmt::format("no process for a plug-in: {}.", std::strerror(errno)));
  }
  std::string frame;
  std::optional<PluginProblem> problem;
  try {
    frame = read_frame(ends[0], deadline);
  } catch (const PluginProblem& damaged) {
    problem = damaged;
  }
  close(ends[0]);
  // A whole answer is an end, whatever the child does afterwards.
  const std::optional<int> status = wait_for(child, frame.empty() && !problem ? deadline : Clock::time_point());
  if (problem) {
    throw PluginProblem(*problem);
  }
  if (frame.empty()) {
    throw PluginProblem{"", end_in_words(status, timeout)};
  }
  if (frame[0] == kResult) {
    return frame.substr(1);
  }
  const std::size_t zero = std::min(frame.find('\0'), frame.size() - 1);
  throw PluginProblem{plugin_text(frame.substr(1, zero - 1).c_str()), plugin_text(frame.c_str() + zero + 1)};
}

}  // namespace epsim
