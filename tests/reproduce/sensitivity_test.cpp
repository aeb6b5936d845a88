// Which inputs are told beside a verdict.
#include "sim/reproduce/sensitivity.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

namespace epsim {
namespace {

ClaimMovement movement(const char* input, double after) { return {"C09", "A / B", input, "less", 1.4, after}; }

}  // namespace

TEST_CASE("a figure is told the two inputs that move it most, the largest first, each once") {
  const std::vector<ClaimMovement> all{movement("links", 1.3),
                                       movement("memory", 1.45),
                                       movement("k", 1.1),
                                       movement("k", 1.8),
                                       movement("seed", 1.4),
                                       movement("broken", NAN),
                                       {"C10", "A / B", "links", "less", 1, 9}};
  std::vector<ClaimRow> rows{named_row("C09", "A / B", "1.4x"), named_row("C09", "C / D", "1.4x")};
  add_movements(rows, all);
  // k moves it by 0.4 one way and 0.3 the other; links by 0.1; memory by 0.05; seed by nothing.
  REQUIRE(rows[0].moved_by.size() == 2);
  CHECK(rows[0].moved_by[0].input == "k");
  CHECK(rows[0].moved_by[0].after == 1.8);
  CHECK(rows[0].moved_by[1].input == "links");
  CHECK(rows[1].moved_by.empty());
  CHECK(claims_table(rows, true).find("moved most by k, less (1.400 to 1.800); links, less (1.400 to 1.300)") !=
        std::string::npos);
}

TEST_CASE("sensitivity.csv has a row per figure and input") {
  std::ostringstream out;
  write_sensitivity_csv(out, std::vector{movement("links", 1.3)});
  CHECK(out.str() == "claim,statement,input,input_change,value_before,value_after\nC09,A / B,links,less,1.4,1.3\n");
}

}  // namespace epsim
