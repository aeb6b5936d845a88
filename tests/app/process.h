// Runs the built program as a user would, and tells what came back.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace epsim::test {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
  long peak_mebibytes = 0;  // run_epsim_within() alone
};

inline std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// `arguments` as the shell would read them; runs in `folder`.
inline Outcome run_epsim(const TempDir& folder, const std::string& arguments) {
  const std::string command =
      "cd '" + folder.path().string() + "' && '" EPSIM_BINARY "' " + arguments + " >stdout.txt 2>stderr.txt </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder / "stdout.txt"), slurp(folder / "stderr.txt"), 0};
}

// Sanitizers reserve terabytes of address space.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr const char* kAddressSpace = "";
#else
inline constexpr const char* kAddressSpace = "ulimit -v 8000000 && ";
#endif

// As run_epsim(), ended after 30 s and within 8 GB of address space; `arguments` may redirect.
inline Outcome run_epsim_within(const TempDir& folder, const std::string& arguments) {
  const std::string command =
      "cd '" + folder.path().string() + "' && " + kAddressSpace +
      "exec >stdout.txt 2>stderr.txt </dev/null && exec timeout -s KILL 30 '" EPSIM_BINARY "' " + arguments;
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder / "stdout.txt"), slurp(folder / "stderr.txt"),
          usage.ru_maxrss / 1024};
}

inline std::string small_scenario() { return "'" + (data_dir() / "small.yaml").string() + "'"; }

}  // namespace epsim::test
