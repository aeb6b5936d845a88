// calibration/run.sh where there is no GPU, and the program it calls.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim::test {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int code = -1;
  std::string text;  // both streams
};

Ran run(const TempDir& folder, const std::string& command) {
  const fs::path out = folder / "out.txt";
  const int status = std::system(("(" + command + ") > '" + out.string() + "' 2>&1 < /dev/null").c_str());
  std::ifstream in(out);
  std::stringstream text;
  text << in.rdbuf();
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text.str()};
}

std::string script() { return "'" + (source_dir() / "calibration/run.sh").string() + "'"; }

// A PATH with the shell's own tools alone, so that a GPU of this machine is not seen.
std::string path_without_driver(const TempDir& folder) {
  fs::create_directory(folder / "bin");
  for (const char* tool : {"bash", "dirname", "head", "env"}) {
    for (const char* place : {"/usr/bin", "/bin"}) {
      if (fs::exists(fs::path(place) / tool) && !fs::exists(folder.path() / "bin" / tool)) {
        fs::create_symlink(fs::path(place) / tool, folder.path() / "bin" / tool);
      }
    }
  }
  return "PATH='" + (folder / "bin").string() + "' ";
}

TEST_CASE("without a driver the script says so and ends with 1") {
  const TempDir folder;
  const Ran ran = run(folder, path_without_driver(folder) + script() + " quick");
  CHECK(ran.code == 1);
  check_contains(ran.text, {"no NVIDIA driver", "machine with a GPU"});
}

TEST_CASE("with a driver that finds no GPU the script quotes it") {
  const TempDir folder;
  const std::string path = path_without_driver(folder);
  std::ofstream(folder / "bin/nvidia-smi") << "#!/usr/bin/env bash\necho 'No devices were found'\nexit 6\n";
  fs::permissions(folder / "bin/nvidia-smi", fs::perms::owner_all);
  const Ran ran = run(folder, path + script());
  CHECK(ran.code == 1);
  check_contains(ran.text, {"finds no GPU: No devices were found"});
}

TEST_CASE("an unknown mode is bad usage") {
  const TempDir folder;
  const Ran ran = run(folder, script() + " fast");
  CHECK(ran.code == 2);
  check_contains(ran.text, {"unknown mode 'fast'", "quick, full"});
}

TEST_CASE("the program without a GPU: it can list, not measure") {
  const TempDir folder;
  const std::string program = "CUDA_VISIBLE_DEVICES= '" EPSIM_CALIBRATE "' ";
  const Ran listed = run(folder, program + "--list");
  CHECK(listed.code == 0);
  check_contains(listed.text, {"grouped_gemm", "nothing can be measured here"});
  const Ran measured = run(folder, "cd '" + folder.path().string() + "' && " + program + "--quick");
  CHECK(measured.code == 1);
  check_contains(measured.text, {"epsim-calibrate: "});
  CHECK(!fs::exists(folder / "points.h5"));
  CHECK(run(folder, program + "--qick").code == 2);
}

}  // namespace
}  // namespace epsim::test
