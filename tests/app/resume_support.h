// What the tests of verbs that go on after a kill share.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "sim/study/job_pack.h"
#include "tests/app/process.h"

namespace epsim::test {

// 3 x 2 x 2 points.
inline const std::string kSweepJob =
    "sweep " + small_scenario() +
    " -q --vary requests.rate=10/s,20/s,40/s --vary cluster.nodes=1,2 --policies base,eplb --only-listed ";

// Every file below a folder, by its relative name.
inline std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      out[std::filesystem::relative(entry.path(), folder).string()] = slurp(entry.path());
    }
  }
  return out;
}

// Finished parts in the folder that a verb keeps them in, or in the file that they were merged into. A part that is
// still being written is none: a kill loses it.
inline std::size_t finished_parts(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> packs{folder.string() + ".pack"};
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".pack") {
      packs.push_back(entry.path());
    }
  }
  std::size_t count = 0;
  for (const std::filesystem::path& pack : packs) {
    const int file = open(pack.c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
      PackScan scan;
      scan_pack(file, scan, false, [](const PackedJob&) {});
      count += scan.results;
      close(file);
    }
  }
  return count;
}

// Starts the program, in `dir`.
inline pid_t start_epsim(const TempDir& dir, const std::string& arguments) {
  const std::string command =
      "cd '" + dir.path().string() + "' && exec '" EPSIM_BINARY "' " + arguments + " >/dev/null 2>&1 </dev/null";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  return child;
}
// Waits for it; its exit code, -1 when a signal ended it.
inline int end_of(pid_t process) {
  int status = 0;
  return waitpid(process, &status, 0) == process && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Starts the program and sends it a signal once `parts` parts are finished in `folder` (or at once, with 0). The status
// as of waitpid().
inline int signal_after(int signal, const TempDir& dir, const std::string& arguments,
                        const std::filesystem::path& folder, std::size_t parts) {
  const pid_t child = start_epsim(dir, arguments);
  int status = 0;
  while (finished_parts(folder) < parts && waitpid(child, &status, WNOHANG) == 0) {
    usleep(200);
  }
  if (kill(child, signal) == 0) {
    waitpid(child, &status, 0);
  }
  return status;
}

}  // namespace epsim::test
