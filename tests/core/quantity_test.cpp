#include "sim/core/quantity.h"

#include <doctest/doctest.h>

#include "tests/support/errors.h"

namespace epsim {
namespace {

double value_of(const std::string& text, const std::string& dimension) {
  std::string problem;
  const std::optional<double> value = parse_quantity(text, dimension, problem);
  REQUIRE_MESSAGE(value.has_value(), problem);
  CHECK(problem.empty());
  return *value;
}

TEST_CASE("every unit of every dimension") {
  struct Row {
    std::string text, dimension;
    double value;
  };
  const Row rows[] = {
      {"60s", "time", 60},
      {"10min", "time", 600},
      {"2h", "time", 7200},
      {"250ms", "time", 0.25},
      {"3us", "time", 3e-6},
      {"7ns", "time", 7e-9},
      {"5B", "bytes", 5},
      {"5KB", "bytes", 5e3},
      {"512MB", "bytes", 512e6},
      {"80GB", "bytes", 80e9},
      {"1TB", "bytes", 1e12},
      {"4KiB", "bytes", 4096},
      {"84MiB", "bytes", 88080384},  // 84 * 2^20
      {"4GiB", "bytes", 4294967296},
      {"1TiB", "bytes", 1099511627776},
      {"9B/s", "byte rate", 9},
      {"1KB/s", "byte rate", 1e3},
      {"2MB/s", "byte rate", 2e6},
      {"50GB/s", "byte rate", 50e9},
      {"3.35TB/s", "byte rate", 3.35e12},
      {"1GiB/s", "byte rate", 1073741824},
      {"100Gb/s", "byte rate", 12.5e9},  // bits
      {"3.2Tb/s", "byte rate", 400e9},
      {"312TF/s", "flop rate", 312e12},
      {"500GF/s", "flop rate", 5e11},
      {"2PF/s", "flop rate", 2e15},
      {"3e9F/s", "flop rate", 3e9},
      {"2.5/s", "request rate", 2.5},
      {"30/min", "request rate", 0.5},
      {"900/h", "request rate", 0.25},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(value_of(row.text, row.dimension) == doctest::Approx(row.value).epsilon(1e-15));
  }
}

TEST_CASE("numbers may have a sign, an exponent and a space before the unit") {
  CHECK(value_of("1e3 ms", "time") == doctest::Approx(1.0));
  CHECK(value_of("-2s", "time") == -2.0);  // the reader's bound refuses it, not the number
  CHECK(value_of("+.5  s", "time") == 0.5);
}

TEST_CASE("what is no quantity says why and which units there are") {
  struct Row {
    std::string text, dimension, says;
  };
  const Row rows[] = {
      {"60", "time", "'60' has no unit"}, {"60 ", "time", "has no unit"},    {"60sec", "time", "unit 'sec'"},
      {"60S", "time", "unit 'S'"},        {"4GB/s", "bytes", "unit 'GB/s'"}, {"4GB", "byte rate", "unit 'GB'"},
      {"4gb", "bytes", "unit 'gb'"},      {"s", "time", "not a time"},       {"", "time", "not a time"},
      {"ten s", "time", "not a time"},    {"nan s", "time", "finite"},       {"inf s", "time", "finite"},
      {"-infs", "time", "finite"},        {"1e999s", "time", "finite"},      {"5 s s", "time", "unit 's s'"},
      {"1,5s", "time", "unit ',5s'"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    std::string problem;
    CHECK(!parse_quantity(row.text, row.dimension, problem).has_value());
    test::check_contains(problem, {row.says.c_str(), row.dimension == "time" ? "s, ms, us, ns, min, h" : "GB"});
  }
}

}  // namespace
}  // namespace epsim
