// What every verb shares on the command line: help, where results go.
#include <doctest/doctest.h>

#include "tests/app/process.h"

using epsim::test::Outcome;
using epsim::test::run_epsim;
using epsim::test::slurp;
using epsim::test::small_scenario;
using epsim::test::TempDir;

TEST_CASE("epsim help VERB is epsim VERB --help") {
  const TempDir dir;
  for (const std::string verb : {"run", "compare", "goodput", "sweep", "list", "plan"}) {
    CAPTURE(verb);
    const Outcome help = run_epsim(dir, "help " + verb), option = run_epsim(dir, verb + " --help");
    CHECK(help.exit_code == 0);
    CHECK(help.out == option.out);
    CHECK(help.out.find("epsim " + verb) == 0);
  }
  CHECK(run_epsim(dir, "help rnu").exit_code == 2);
}

TEST_CASE("without -o no run takes another's folder, and out/last is the newest") {
  const TempDir dir;
  for (const char* folder : {"out/small", "out/small-2", "out/small-3"}) {
    const Outcome done = run_epsim(dir, "run " + small_scenario() + " -q");
    REQUIRE_MESSAGE(done.exit_code == 0, done.err);
    CHECK(done.out.find(std::string("results: ") + folder + "\n") != std::string::npos);
    CHECK(std::filesystem::exists(dir / folder / "resolved.yaml"));
    CHECK(std::filesystem::read_symlink(dir / "out/last") == std::filesystem::path(folder).filename());
  }
  // A named folder is not taken twice, and does not become `last`.
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q -o out/mine").exit_code == 0);
  const Outcome again = run_epsim(dir, "run " + small_scenario() + " -q -o out/mine");
  CHECK(again.exit_code == 2);
  CHECK(again.err.find("--overwrite") != std::string::npos);
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small-3");
  // With --overwrite the plain name is replaced.
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q --overwrite").exit_code == 0);
  CHECK(std::filesystem::read_symlink(dir / "out/last") == "small");
}

TEST_CASE("a run that is refused leaves no folder behind") {
  const TempDir dir;
  CHECK(run_epsim(dir, "run " + small_scenario() + " -q --timeline 3:x").exit_code == 2);
  CHECK(run_epsim(dir, "run " + small_scenario() + " -q --set memory.static_fraction=0.01").exit_code == 2);
  CHECK_FALSE(std::filesystem::exists(dir / "out/small"));
  // A user's own folder `last` stays as it is.
  std::filesystem::create_directories(dir / "out/last");
  REQUIRE(run_epsim(dir, "run " + small_scenario() + " -q").exit_code == 0);
  CHECK_FALSE(std::filesystem::is_symlink(dir / "out/last"));
}
