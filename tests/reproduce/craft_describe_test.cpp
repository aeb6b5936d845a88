// What a reproduction tells of a setup before anything is served.
#include "sim/reproduce/craft_describe.h"

#include <doctest/doctest.h>

#include <sstream>
#include <vector>

#include "sim/reproduce/craft_tables.h"

namespace epsim {
namespace {

TEST_CASE("balancedness of experts in order is a mean over batches") {
  // Four experts, two on each of two GPUs. Batch 1: 3 + 1 against 0 + 0, mean / max = 2 / 4. Batch 2: 1 + 1 against
  // 1 + 1. Their sum, 4 + 2 against 1 + 1, would be 4 / 6.
  LoadWindow window(1, 4);
  const std::vector<float> batches = {3, 1, 0, 0, 1, 1, 1, 1};
  window.reserve_batches(2);
  window.add_batches(batches, 2);
  CHECK(balancedness_in_order(window, 2) == std::vector<double>{(0.5 + 1.0) / 2});
}

TEST_CASE("the table of gains goes from experts in order to the most copies") {
  SetupEvidence setup;
  setup.skew = {{.number = 3}};
  setup.in_order = {0.25};
  setup.gains = {.counts = {1, 2}, .base = {0.5}, .gain = {{0.125}, {0.25}}};
  CraftEvidence evidence;
  evidence["de8"] = setup;
  std::ostringstream out;
  write_setup_gains_csv(out, evidence);
  CHECK(out.str() ==
        "setup,layer,layer_placement,layer_copies,layer_balancedness,balancedness_gain\n"
        "de8,3,in_order,0,0.25,\n"
        "de8,3,packed,0,0.5,0\n"
        "de8,3,packed,1,0.625,0.125\n"
        "de8,3,packed,2,0.75,0.25\n");
}

}  // namespace
}  // namespace epsim
