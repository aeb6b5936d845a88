// What the tests of verbs that go on after a kill share.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <string>

#include "tests/app/process.h"

namespace epsim::test {

// 3 x 2 x 2 points.
inline const std::string kSweepJob =
    "sweep " + small_scenario() +
    " -q --vary requests.rate=10/s,20/s,40/s --vary cluster.nodes=1,2 --policies base,eplb ";

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

// Finished parts in the folder that a verb keeps them in.
inline std::size_t finished_parts(const std::filesystem::path& folder) {
  std::size_t count = 0;
  if (std::filesystem::exists(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      count += entry.path().extension() == ".json" ? 1 : 0;
    }
  }
  return count;
}

// Starts the program and sends it a signal once `parts` parts are finished in `folder` (or at once, with 0). The status
// as of waitpid().
inline int signal_after(int signal, const TempDir& dir, const std::string& arguments,
                        const std::filesystem::path& folder, std::size_t parts) {
  const std::string command =
      "cd '" + dir.path().string() + "' && exec '" EPSIM_BINARY "' " + arguments + " >/dev/null 2>&1 </dev/null";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
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
