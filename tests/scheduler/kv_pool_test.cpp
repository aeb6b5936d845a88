#include "sim/scheduler/kv_pool.h"

#include <doctest/doctest.h>

#include "sim/core/check.h"

namespace epsim {

TEST_CASE("a KV pool counts whole blocks") {
  const KvPool pool(10, 64);
  CHECK(pool.blocks_for(1) == 1);
  CHECK(pool.blocks_for(64) == 1);
  CHECK(pool.blocks_for(65) == 2);
  CHECK(pool.has_room(10));
  CHECK_FALSE(pool.has_room(11));
}

TEST_CASE("what is reserved is in use until it is returned, and the peak stays") {
  KvPool pool(10, 1);
  pool.reserve(6);
  pool.reserve(4);
  CHECK(pool.used() == 10);
  CHECK_FALSE(pool.has_room(1));
  pool.release(6);
  CHECK(pool.used() == 4);
  CHECK(pool.has_room(6));
  CHECK(pool.peak() == 10);
}

TEST_CASE("a KV pool refuses what would not conserve blocks") {
  KvPool pool(3, 1);
  CHECK_THROWS_AS(pool.reserve(4), InvariantBroken);
  CHECK_THROWS_AS(pool.reserve(0), InvariantBroken);
  pool.reserve(2);
  CHECK_THROWS_AS(pool.release(3), InvariantBroken);
  CHECK_THROWS_AS(KvPool(0, 1), InvariantBroken);
}

}  // namespace epsim
