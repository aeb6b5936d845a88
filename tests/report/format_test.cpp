#include "sim/report/format.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace epsim {

TEST_CASE("times are exact decimals of their picoseconds") {
  CHECK(exact_seconds(Ticks{0}) == "0");
  CHECK(exact_seconds(Ticks{1}) == "0.000000000001");
  CHECK(exact_seconds(Ticks{1'500'000'000'000}) == "1.5");
  CHECK(exact_seconds(Ticks{3'000'000'000'000}) == "3");
  CHECK(exact_ms(Ticks{1'500'000'000}) == "1.5");
  CHECK(exact_ms(Ticks{-2'250'000'001}) == "-2.250000001");
  // 2^63 - 1 ps, which no double holds.
  CHECK(exact_seconds(Ticks{std::numeric_limits<std::int64_t>::max()}) == "9223372.036854775807");
  CHECK(exact_seconds(Ticks{std::numeric_limits<std::int64_t>::min()}) == "-9223372.036854775808");
}

TEST_CASE("exact numbers read back, undefined ones are empty") {
  CHECK(exact(0.1) == "0.1");
  CHECK(exact(2.0) == "2");
  CHECK(std::stod(exact(1.0 / 3.0)) == 1.0 / 3.0);
  CHECK(exact(kUndefined).empty());
  CHECK(exact(std::numeric_limits<double>::infinity()).empty());
}

TEST_CASE("rounded numbers keep about four digits") {
  CHECK(rounded(0.0) == "0");
  CHECK(rounded(0.12345) == "0.1235");
  CHECK(rounded(1.23456) == "1.235");
  CHECK(rounded(12.3456) == "12.35");
  CHECK(rounded(123.456) == "123.5");
  CHECK(rounded(123456.7) == "123457");
  CHECK(rounded(kUndefined) == "-");
}

TEST_CASE("percentages: a sign where asked, none on zero") {
  CHECK(percent(0.1234) == "12.3");
  CHECK(signed_percent(0.0123) == "+1.2");
  CHECK(signed_percent(-0.19) == "-19.0");
  CHECK(signed_percent(-0.0001) == "0.0");
  CHECK(signed_percent(0.0001) == "0.0");
  CHECK(signed_percent(kUndefined) == "-");
}

TEST_CASE("a ratio is undefined unless its denominator is positive") {
  CHECK(ratio(1, 4) == 0.25);
  CHECK(std::isnan(ratio(1, 0)));
  CHECK(std::isnan(ratio(0, 0)));
  CHECK(std::isnan(ratio(1, kUndefined)));
}

TEST_CASE("sums of money have separators from five digits on") {
  CHECK(money(277236.4) == "277,236");
  CHECK(money(9999.4) == "9999");
  CHECK(money(9999.6) == "10,000");
  CHECK(money(12.3456) == "12.35");
  CHECK(money(kUndefined) == "-");
}

TEST_CASE("thousands are grouped") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-123) == "-123");
  CHECK(grouped(-1234) == "-1,234");
}

TEST_CASE("text for a terminal") {
  CHECK(printable("a\033[31mb\nc\x7f") == "a?[31mb?c?");
  CHECK(printable("größe") == "größe");
  CHECK(display_width("größe") == 5);
  CHECK(shortened("größe", 5) == "größe");
  CHECK(shortened("größer", 5) == "größ~");
}

TEST_CASE("paragraphs break at spaces") {
  CHECK(wrapped("one two three", 7, 2) == "one two\n  three");
  CHECK(wrapped("one two", 7, 4, 4) == "one\n    two");  // columns 1 to 4 are taken, so 3 remain
  CHECK(wrapped("unbreakable", 4, 2) == "unbreakable");
  CHECK(wrapped("", 4, 2).empty());
}

}  // namespace epsim
