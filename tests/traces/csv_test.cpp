#include "traces/format/csv.h"

#include <doctest/doctest.h>

#include "tests/traces/support.h"

namespace epsim {
namespace {

using test::contains;
using test::message;

TEST_CASE("rows are split at commas, quotes keep commas and doubled quotes") {
  ByteInput input = ByteInput::from_memory("t.csv", "a,b,c\n1,\"x, \"\"y\"\"\",\n\n2,,\"\"\n");
  CsvReader rows(input);
  CHECK(rows.header() == std::vector<std::string>{"a", "b", "c"});
  REQUIRE(rows.next());
  CHECK(rows.integer(0) == 1);
  CHECK(rows.text(1) == "x, \"y\"");
  CHECK(rows.text(2).empty());
  REQUIRE(rows.next());  // the empty line is passed over
  CHECK(rows.line_number() == 4);
  CHECK(rows.text(1).empty());
  CHECK_FALSE(rows.next());
}

TEST_CASE("broken tables are refused with file, line and column") {
  const auto read = [](const std::string& text) {
    ByteInput input = ByteInput::from_memory("t.csv", text);
    CsvReader rows(input);
    while (rows.next()) {
      rows.integer(rows.column("a"));
      rows.number(1);
    }
  };
  CHECK(message([&] { read(""); }) == "t.csv:1: the file is empty; a header line with the column names comes first.");
  CHECK(message([&] { read("a,b\n1\n"); }) == "t.csv:2: the row has 1 fields, the header 2.");
  CHECK(message([&] { read("a,b\n1,2\nx,2\n"); }) == "t.csv:3: `a`: 'x' is not a whole number.");
  CHECK(message([&] { read("a,b\n1.5,2\n"); }) == "t.csv:2: `a`: '1.5' is not a whole number.");
  CHECK(message([&] { read("a,b\n9223372036854775808,2\n"); }) ==
        "t.csv:2: `a`: '9223372036854775808' is not a whole number.");  // 2^63
  CHECK(message([&] { read("a,b\n1,nan\n"); }) == "t.csv:2: `b`: 'nan' is not a finite number.");
  CHECK(message([&] { read("a,b\n1,1e999\n"); }) == "t.csv:2: `b`: '1e999' is not a finite number.");
  CHECK(message([&] { read("c,b\n1,2\n"); }) == "t.csv:2: there is no column 'a'; the header has 'c,b'.");
  CHECK(contains(message([&] { read("a,b\n\"1,2\n"); }), "does not end on this line"));
  CHECK(contains(message([&] { read("a,b\n\"1\"2,2\n"); }), "not a comma"));
}

}  // namespace
}  // namespace epsim
