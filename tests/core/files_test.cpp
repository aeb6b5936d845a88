#include "sim/core/files.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>

#include "sim/core/error.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;
using test::check_contains;
using test::error_of;
using test::TempDir;

constexpr const char* kMarker = "resolved.yaml";

void write_text(const fs::path& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("a file is read whole, byte by byte") {
  TempDir dir;
  const std::string text("a\r\n\0\xff z", 8);
  write_text(dir / "a.bin", text);
  CHECK(read_file(dir / "a.bin") == text);
  write_text(dir / "empty", "");
  CHECK(read_file(dir / "empty").empty());
}

TEST_CASE("a file that is not there, or is a folder, is an input error that names it") {
  TempDir dir;
  check_contains(error_of<InputError>([&] { read_file(dir / "no.csv"); }).what(), {"no.csv", "no such file"});
  check_contains(error_of<InputError>([&] { read_file(dir.path()); }).what(), {"folder, not a file"});
  CHECK_THROWS_AS(read_file(dir / std::string(5000, 'n')), InputError);
}

TEST_CASE("a folder is described by its own files: their sizes, names and contents") {
  TempDir dir;
  const fs::path folder = dir / "pool";
  fs::create_directories(folder / "below");
  write_text(folder / "a.csv", "12345");
  write_text(folder / "b.csv", "678");
  const InputFile first = describe_file(folder);
  CHECK(first.name == folder.string());
  CHECK(first.bytes == 5 + 3);
  write_text(folder / "below" / "c.csv", "not read");
  CHECK(describe_file(folder).hash == first.hash);
  write_text(folder / "b.csv", "679");
  const InputFile changed = describe_file(folder);
  CHECK(changed.bytes == first.bytes);
  CHECK(changed.hash != first.hash);
  fs::rename(folder / "b.csv", folder / "c.csv");
  CHECK(describe_file(folder).hash != changed.hash);
  check_contains(error_of<InputError>([&] { files_in(dir / "none"); }).what(), {"none: the folder cannot be read"});
}

TEST_CASE("a file is written whole, and replaces another") {
  TempDir dir;
  for (const std::string text : {"first", "second, longer", ""}) {
    write_file_atomically(dir / "out.csv", text);
    CHECK(read_file(dir / "out.csv") == text);
  }
  CHECK(entries(dir.path()) == 1);  // no temporary is left
}

TEST_CASE("a file that cannot be written leaves the old one, and no temporary") {
  TempDir dir;
  fs::create_directory(dir / "taken");
  write_text(dir.path() / "taken" / "inside", "x");
  CHECK_THROWS_AS(write_file_atomically(dir / "taken", "text"), RunFailed);
  CHECK(entries(dir.path()) == 1);
  check_contains(error_of<RunFailed>([&] { write_file_atomically(dir.path() / "absent" / "a.csv", "text"); }).what(),
                 {"a.csv", "cannot be written"});
}

TEST_CASE("an output folder appears only when it is complete") {
  TempDir dir;
  {
    OutputFolder out(dir.path() / "deep" / "run", false, kMarker);
    write_text(out.path() / kMarker, "a: 1\n");
    CHECK(!fs::exists(dir.path() / "deep" / "run"));
    out.commit();
  }
  CHECK(read_file(dir.path() / "deep" / "run" / kMarker) == "a: 1\n");
  CHECK(entries(dir / "deep") == 1);
}

TEST_CASE("an output folder that is not completed leaves nothing") {
  TempDir dir;
  {
    OutputFolder out(dir / "run", false, kMarker);
    write_text(out.path() / "half.csv", "a,b\n");
  }
  CHECK(entries(dir.path()) == 0);
}

TEST_CASE("an existing folder is refused, and stays as it was") {
  TempDir dir;
  fs::create_directory(dir / "run");
  write_text(dir.path() / "run" / kMarker, "old");
  const InputError e = error_of<InputError>([&] { OutputFolder(dir / "run", false, kMarker); });
  CHECK(e.place.file == (dir / "run").string());
  check_contains(e.what(), {"exists", "--overwrite"});
  write_text(dir / "file", "x");
  check_contains(error_of<InputError>([&] { OutputFolder(dir / "file", true, kMarker); }).what(), {"taken by a file"});
  CHECK(read_file(dir.path() / "run" / kMarker) == "old");
  CHECK(entries(dir.path()) == 2);
}

TEST_CASE("an empty folder may be used as it is") {
  TempDir dir;
  fs::create_directory(dir / "run");
  OutputFolder out(dir / "run", false, kMarker);
  write_text(out.path() / kMarker, "new");
  out.commit();
  CHECK(read_file(dir.path() / "run" / kMarker) == "new");
}

TEST_CASE("overwriting replaces one of our outputs as a whole") {
  TempDir dir;
  fs::create_directory(dir / "run");
  write_text(dir.path() / "run" / kMarker, "old");
  write_text(dir.path() / "run" / "stale.csv", "old");
  OutputFolder out(dir / "run", true, kMarker);
  write_text(out.path() / kMarker, "new");
  CHECK(read_file(dir.path() / "run" / kMarker) == "old");  // until it is complete
  out.commit();
  CHECK(read_file(dir.path() / "run" / kMarker) == "new");
  CHECK(!fs::exists(dir.path() / "run" / "stale.csv"));
  CHECK(entries(dir.path()) == 1);
}

TEST_CASE("overwriting a folder that is not one of ours is refused") {
  TempDir dir;
  fs::create_directory(dir / "home");
  write_text(dir.path() / "home" / "thesis.tex", "years");
  check_contains(error_of<InputError>([&] { OutputFolder(dir / "home", true, kMarker); }).what(),
                 {"holds no resolved.yaml", "name another"});
  CHECK(fs::exists(dir.path() / "home" / "thesis.tex"));
}

TEST_CASE("dots and slashes at the end name the same folder") {
  TempDir dir;
  for (const std::string end : {"/", "//", "/.", "/./", "/x/.."}) {
    CAPTURE(end);
    OutputFolder out(dir.path().string() + "/run" + end, false, kMarker);
    CHECK(out.target() == dir / "run");
    CHECK(out.path().parent_path() == dir.path());
  }
  CHECK(OutputFolder("some-run", false, kMarker).target() == "some-run");
}

TEST_CASE("the working directory can be the output folder, by its full name") {
  TempDir dir;
  fs::create_directories(dir.path() / "run" / "sub");
  const fs::path before = fs::current_path();
  fs::current_path(dir.path() / "run" / "sub");
  const fs::path here = OutputFolder(".", false, kMarker).target();
  const std::string up = error_of<InputError>([] { OutputFolder("..", false, kMarker); }).what();
  fs::current_path(before);
  CHECK(here == dir.path() / "run" / "sub");
  check_contains(up, {"exists"});
  check_contains(error_of<InputError>([] { OutputFolder("", false, kMarker); }).what(), {"empty"});
  CHECK_THROWS_AS(OutputFolder("/", true, kMarker), InputError);
}

TEST_CASE("what a killed run left under the same process number is not taken over") {
  TempDir dir;
  fs::path left;
  {
    OutputFolder out(dir / "run", false, kMarker);
    left = out.path();
  }
  fs::create_directories(left);
  write_text(left / "stale.csv", "from another run");
  OutputFolder out(dir / "run", false, kMarker);
  CHECK(fs::is_empty(out.path()));
}

TEST_CASE("an output that another run puts there meanwhile is kept") {
  TempDir dir;
  OutputFolder out(dir / "run", false, kMarker);
  fs::create_directory(dir / "run");
  write_text(dir.path() / "run" / kMarker, "theirs");
  CHECK_THROWS_AS(out.commit(), RunFailed);
  CHECK(read_file(dir.path() / "run" / kMarker) == "theirs");
}

TEST_CASE("a folder that cannot be completed leaves the old output") {
  TempDir dir;
  fs::create_directory(dir / "run");
  write_text(dir.path() / "run" / kMarker, "old");
  {
    OutputFolder out(dir / "run", true, kMarker);
    fs::remove_all(out.path());  // gone, so it cannot be moved
    check_contains(error_of<RunFailed>([&] { out.commit(); }).what(), {"run", "cannot be moved there"});
  }
  CHECK(read_file(dir.path() / "run" / kMarker) == "old");
  CHECK(entries(dir.path()) == 1);
}

TEST_CASE("a place where no folder can be made is an input error") {
  TempDir dir;
  write_text(dir / "file", "x");
  check_contains(error_of<InputError>([&] { OutputFolder(dir.path() / "file" / "run", false, kMarker); }).what(),
                 {"cannot be made there"});
  CHECK_THROWS_AS(OutputFolder(dir / std::string(300, 'n'), false, kMarker), InputError);
}

TEST_CASE("a temporary folder is its own, and goes away with what is in it") {
  fs::path was;
  {
    const TemporaryFolder one("epsim-files-"), other("epsim-files-");
    CHECK(one.path() != other.path());
    CHECK(one.path().filename().string().starts_with("epsim-files-"));
    std::ofstream(one / "deep") << "content";
    CHECK(fs::exists(one.path() / "deep"));
    was = one.path();
  }
  CHECK_FALSE(fs::exists(was));
}

TEST_CASE("where there is no place for temporary folders the error says what names one") {
  const TempDir dir;
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", (dir / "nowhere").c_str(), 1);
  const RunFailed e = error_of<RunFailed>([] { TemporaryFolder("epsim-files-"); });
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  check_contains(e.what(), {"no temporary folder", "TMPDIR"});
}

TEST_CASE("an output folder that another process writes is refused; what a killed one left goes") {
  TempDir dir;
  fs::create_directory(dir / ".out.partial-4000000");  // no process has this number
  write_text(dir / ".out.partial-4000000/half.csv", "x");
  const int held = open((dir / ".out.partial-4000000").c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(held, LOCK_EX) == 0);
  check_contains(error_of<InputError>([&] { OutputFolder(dir / "out", false, kMarker); }).what(),
                 {"out", "process 4000000 is writing"});
  close(held);
  OutputFolder out(dir / "out", false, kMarker);
  CHECK(entries(dir.path()) == 1);
  CHECK_THROWS_AS(OutputFolder(dir / "out", false, kMarker), InputError);
  out.commit();
  CHECK(entries(dir.path()) == 1);
}

// What a kill leaves between two renames is neither the old output nor the new one.
TEST_CASE("an output that is replaced is there at any time") {
  const TempDir dir;
  fs::create_directory(dir / "a");
  fs::create_directory(dir / "b");
  if (renameat2(AT_FDCWD, (dir / "a").c_str(), AT_FDCWD, (dir / "b").c_str(), RENAME_EXCHANGE) != 0) {
    MESSAGE("this file system exchanges no names");
    return;
  }
  const auto replace = [&] {
    OutputFolder out(dir / "run", true, kMarker);
    write_text(out.path() / kMarker, "x");
    out.commit();
  };
  replace();
  std::atomic<bool> done{false};
  std::atomic<int> missing{0};
  std::thread watcher([&] {
    while (!done) {
      missing += access((dir / "run" / kMarker).c_str(), F_OK) != 0;
    }
  });
  for (int i = 0; i < 300; ++i) {
    replace();
  }
  done = true;
  watcher.join();
  CHECK(missing == 0);
}

}  // namespace
}  // namespace epsim
