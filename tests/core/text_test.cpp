#include "sim/core/text.h"

#include <doctest/doctest.h>

using namespace epsim;

TEST_CASE("one of a thing is named in the singular, any other number in the plural") {
  CHECK(count_of(1, "instance") == "1 instance");
  CHECK(count_of(0, "instance") == "0 instances");
  CHECK(count_of(2, "extra copy") == "2 extra copies");
  CHECK(count_of("1", "extra copy") == "1 extra copy");
  CHECK(count_of("64,015", "copy") == "64,015 copies");  // as the terminal shows it
}
