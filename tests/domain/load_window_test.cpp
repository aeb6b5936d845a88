#include "sim/domain/load_window.h"

#include <doctest/doctest.h>

#include <limits>

#include "sim/core/check.h"
#include "sim/core/error.h"
#include "tests/support/errors.h"

namespace epsim {
namespace {

TEST_CASE("a window holds one count per layer and expert") {
  LoadWindow w(2, 3);
  CHECK(w.layers() == 2);
  CHECK(w.experts() == 3);
  CHECK(w.total(1) == 0.0);
  w.layer(0)[2] = 5;
  w.layer(1)[0] = 7;
  w.layer(1)[1] = 1;
  CHECK(w.total(0) == 5.0);
  CHECK(w.total(1) == 8.0);
  CHECK(w.layer(0)[0] == 0.0);
  CHECK(w.layer(1).size() == 3);
}

TEST_CASE("batches add up to the window and are kept one by one") {
  LoadWindow w(2, 2);
  w.reserve_batches(3);
  CHECK(w.batches() == 0);
  const float first[] = {1, 2, 3, 4}, second[] = {10, 20, 30, 40};  // [layer][expert]
  w.add_batch(first);
  w.add_batch(second);
  CHECK(w.batches() == 2);
  CHECK(w.layer(0)[0] == 11.0);
  CHECK(w.layer(1)[1] == 44.0);
  const std::span<const float> of = w.batches_of(1, 0);
  CHECK(of.size() == 2);
  CHECK(of[0] == 3.0F);
  CHECK(of[1] == 30.0F);
}

TEST_CASE("batches that were not announced, or have another shape, break an invariant") {
  LoadWindow w(1, 2);
  const float batch[] = {1, 2};
  CHECK_THROWS_AS(w.add_batch(batch), InvariantBroken);
  w.reserve_batches(1);
  CHECK_THROWS_AS(w.add_batch(std::span(batch, 1)), InvariantBroken);
  w.add_batch(batch);
  CHECK_THROWS_AS(w.add_batch(batch), InvariantBroken);
  CHECK_THROWS_AS(w.reserve_batches(5), InvariantBroken);
  CHECK(w.layer(0)[1] == 2.0);
}

TEST_CASE("balancedness is mean over max, and 1 when nothing is loaded") {
  const double uneven[] = {4, 1, 1, 2}, even[] = {3, 3}, one[] = {0, 0, 8, 0}, zero[] = {0, 0, 0};
  CHECK(balancedness(uneven) == 0.5);  // mean 2, max 4
  CHECK(balancedness(even) == 1.0);
  CHECK(balancedness(one) == 0.25);
  CHECK(balancedness(zero) == 1.0);
  CHECK(balancedness({}) == 1.0);
}

}  // namespace
}  // namespace epsim
