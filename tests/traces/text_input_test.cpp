#include "traces/format/text_input.h"

#include <doctest/doctest.h>

#include "tests/support/paths.h"
#include "tests/traces/support.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

std::vector<std::string> lines_of(ByteInput input, std::size_t max_line = LineReader::kMaxLine) {
  LineReader reader(input, max_line);
  std::vector<std::string> out;
  for (std::string_view line; reader.next(line);) {
    out.emplace_back(line);
  }
  return out;
}

TEST_CASE("lines end with LF, CR LF or the end of the input; a byte order mark is dropped") {
  CHECK(lines_of(ByteInput::from_memory("m",
                                        "\xEF\xBB\xBF"
                                        "a\r\nb\n\nc")) == std::vector<std::string>{"a", "b", "", "c"});
  CHECK(lines_of(ByteInput::from_memory("m", "")).empty());
}

TEST_CASE("a gzip file reads as the text inside it, over many buffers") {
  const test::TempDir folder;
  std::string text;
  for (int i = 0; i < 100000; ++i) {  // 0.6 to 0.7 MB, several read buffers
    text += std::to_string(i) + "\n";
  }
  test::write_text(folder / "plain", text);
  test::write_gzip(folder / "zipped", text);
  const std::vector<std::string> plain = lines_of(ByteInput(folder / "plain"));
  REQUIRE(plain.size() == 100000);
  CHECK(plain[99999] == "99999");
  CHECK(lines_of(ByteInput(folder / "zipped")) == plain);
}

TEST_CASE("a missing file and a folder are refused by name") {
  const test::TempDir folder;
  CHECK(contains(message([&] { ByteInput(folder / "none.csv"); }), "none.csv: there is no such file"));
  CHECK(contains(message([&] { ByteInput in(folder.path()); }), "folder"));
}

TEST_CASE("a gzip file that is cut off anywhere, or damaged, is refused") {
  const test::TempDir folder;
  test::write_gzip(folder / "whole.gz", std::string(1000, 'x') + "\n" + std::string(1000, 'y'));
  std::ifstream in(folder / "whole.gz", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (std::size_t size = 18; size < whole.size(); ++size) {  // the header alone is 10 bytes
    CAPTURE(size);
    test::write_text(folder / "cut.gz", whole.substr(0, size));
    CHECK(contains(message([&] { lines_of(ByteInput(folder / "cut.gz")); }), "cut.gz"));
  }
  std::string damaged = whole;
  damaged[whole.size() - 6] = static_cast<char>(~damaged[whole.size() - 6]);  // the checksum
  test::write_text(folder / "bad.gz", damaged);
  CHECK(contains(message([&] { lines_of(ByteInput(folder / "bad.gz")); }), "cannot be read"));
}

TEST_CASE("a line longer than allowed is an error that names it") {
  ByteInput input = ByteInput::from_memory("m.csv", "short\n" + std::string(50, 'z') + "\n");
  const InputError e = test::input_error([&] { lines_of(std::move(input), 49); });
  CHECK(e.place.line == 2);
  CHECK(contains(e.what(), "m.csv:2: the line is longer than 49 bytes"));
  CHECK(lines_of(ByteInput::from_memory("m", std::string(49, 'z')), 49).size() == 1);
}

TEST_CASE("a zip bomb ends at the line limit") {
  const test::TempDir folder;
  test::write_gzip(folder / "bomb.gz", std::string(std::size_t{64} << 20, '\0'));
  CHECK(contains(message([&] { lines_of(ByteInput(folder / "bomb.gz")); }), "longer than 1048576 bytes"));
}

}  // namespace
}  // namespace epsim
