// Runs the built program as a user would, and tells what came back.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace epsim::test {

struct Outcome {
  int exit_code = -1;
  std::string out, err;
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
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder / "stdout.txt"), slurp(folder / "stderr.txt")};
}

inline std::string small_scenario() { return "'" + (data_dir() / "small.yaml").string() + "'"; }

}  // namespace epsim::test
