#include "sim/core/limits.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sim/core/config.h"
#include "sim/core/files.h"
#include "sim/core/input_file.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

using test::check_contains;
using test::error_of;
using test::TempDir;

TEST_CASE("sizes multiply without overflow, and what does not fit is above every limit") {
  CHECK(product_of({}) == 1);
  CHECK(product_of({8, 2147483647}) == 17179869176);
  CHECK(product_of({INT64_MAX, 2}) == INT64_MAX);
  CHECK(product_of({INT64_MAX, INT64_MAX, 0}) == 0);
  CHECK(product_of({std::int64_t{1} << 62, 4, 1}) == INT64_MAX);  // 2^64 wraps round to 0
  check_limit(limits::kGpus, 65536, {});
  check_contains(error_of<InputError>([] {
                   check_limit(limits::kGpus, 65537, {"s.yaml", 3, "nodes"});
                 }).what(),
                 {"s.yaml:3: `nodes`: 65537 GPUs in a deployment; at most 65536 are allowed"});
  check_contains(error_of<InputError>([] { check_limit(limits::kSlots, INT64_MAX, {}); }).what(), {"2^63 or more"});
}

TEST_CASE("docs/limits.md states every limit") {
  const std::string page = read_file(test::source_dir() / "docs/limits.md");
  for (const Limit& limit : limits::all()) {
    const std::string row = fmt::format("| {} | {} |", limit.what, limit.most);
    check_contains(page, {row.c_str()});
  }
}

TEST_CASE("only regular files are opened, without waiting") {
  const TempDir dir;
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  const auto refused = [](const std::filesystem::path& file) {
    return std::string(error_of<InputError>([&] { check_input_file(file); }).what());
  };
  check_contains(refused(dir / "pipe"), {"pipe: this is a pipe, not a file"});
  check_contains(refused("/dev/zero"), {"/dev/zero: this is a device"});
  check_contains(refused(dir.path()), {"this is a folder, not a file"});
  check_contains(refused(dir / "none"), {"none: there is no such file"});
  std::ofstream(dir / "four") << "1234";
  CHECK(check_input_file(dir / "four") == 4);
}

TEST_CASE("a document above its limit is refused by its size alone") {
  const TempDir dir;
  std::ofstream(dir / "large.yaml") << "a: 1\n";
  std::filesystem::resize_file(dir / "large.yaml", std::uintmax_t{6} << 30);  // sparse: takes no room on the disk
  check_contains(error_of<InputError>([&] { read_document(dir / "large.yaml"); }).what(),
                 {"large.yaml: 6442450944 bytes in a document", "at most 67108864"});
}

TEST_CASE("documents are in UTF-8") {
  const TempDir dir;
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(dir / "d.yaml", std::ios::binary) << bytes;
    return std::string(error_of<InputError>([&] { read_document(dir / "d.yaml"); }).what());
  };
  using namespace std::string_literals;
  check_contains(refused("\xFF\xFE"
                         "a\0:\0"s),
                 {"d.yaml: the text is in UTF-16 or UTF-32; save it in UTF-8"});
  check_contains(refused("\0\0\xFE\xFF\0\0\0a"s), {"UTF-16 or UTF-32"});
  check_contains(refused("a: \0b"s), {"not text in UTF-8"});
  std::ofstream(dir / "d.yaml") << "\xEF\xBB\xBF"
                                   "a: \xC3\xA9\n";
  CHECK(read_document(dir / "d.yaml").size() == 9);
}

std::string laughs(int levels, int wide) {
  std::string text = "a0: &a0 x\n";
  for (int i = 1; i < levels; ++i) {
    text += fmt::format("a{}: &a{} [", i, i);
    for (int k = 0; k < wide; ++k) {
      text += fmt::format("{}*a{}", k == 0 ? "" : ", ", i - 1);
    }
    text += "]\n";
  }
  return text;
}

TEST_CASE("aliases count as what they repeat") {
  const auto refused = [](const std::string& text) {
    return std::string(error_of<InputError>([&] { Config::from_text(text, "s.yaml"); }).what());
  };
  // Anchor i holds 2^(i+1) - 1 values. Lines 1 to 19 make a map of sum(2^i - 1) = 2^20 - 2 - 19 of them and 19 keys, and
  // itself: 2^20 - 2. Line 20 has a key more, which still fits, and its list grows beyond.
  check_contains(refused(laughs(30, 2)), {"s.yaml:20:", "values in a YAML document", "at most 1048576"});
  check_contains(refused(laughs(90, 2)), {"s.yaml:20:"});
  check_contains(refused("a: " + std::string(200, '[') + std::string(200, ']')), {"s.yaml:1:", "levels of nesting"});
  // Aliases may not hide depth: 60 levels repeated within 60.
  const std::string deep = std::string(60, '[') + "1" + std::string(60, ']');
  check_contains(refused("a: &a " + deep + "\nb: " + std::string(60, '[') + "*a" + std::string(60, ']')),
                 {"s.yaml:2:", "levels of nesting"});
  CHECK_NOTHROW(Config::from_text("a: &a {x: 1}\nb: *a\nc: *a\n", "s.yaml"));
}

TEST_CASE("an override below a value names the file that has the value") {
  Config config = Config::from_text("name: x\ncluster: [1]\n", "s.yaml");
  check_contains(error_of<InputError>([&] { config.set("cluster.nodes=1"); }).what(),
                 {"--set cluster.nodes=1", "'cluster' is a value in s.yaml:2"});
}

}  // namespace
}  // namespace epsim
