#include "sim/scheduler/prefix_cache.h"

#include <doctest/doctest.h>

#include <vector>

#include "sim/core/check.h"
#include "sim/scheduler/kv_pool.h"

namespace epsim {
namespace {

using Path = std::vector<std::int32_t>;

void insert_all(PrefixCache& cache, const Path& path) {
  for (const std::int32_t id : path) {
    bool was_free = false;
    cache.insert(id, was_free);
  }
}

}  // namespace

TEST_CASE("a prefix matches up to the first block that is not there") {
  PrefixCache cache;
  insert_all(cache, {1, 2, 3});
  CHECK(cache.match(Path{1, 2, 3}) == 3);
  CHECK(cache.match(Path{1, 2, 9, 3}) == 2);
  CHECK(cache.match(Path{9, 1}) == 0);
  CHECK(cache.match(Path{}) == 0);
}

TEST_CASE("blocks in use stay; of the others the one goes first that nobody uses for longest, hindmost first") {
  PrefixCache cache;
  insert_all(cache, {1, 2});
  CHECK(cache.lock(Path{1}) == 0);  // a second user of block 1
  insert_all(cache, {3});           // 1 -> 3
  CHECK(cache.evictable() == 0);
  CHECK(cache.unlock(Path{1, 2}) == 1);  // 1 is still in use
  CHECK(cache.unlock(Path{1, 3}) == 2);
  CHECK(cache.evictable() == 3);
  const Path expected[] = {{2}, {3}, {1}};  // 2 was left first; of 1 -> 3 the hindmost goes first
  for (const Path& gone : expected) {
    CHECK(cache.match(gone) == 1);
    cache.evict();
    CHECK(cache.match(gone) == 0);
  }
  CHECK(cache.size() == 0);
  CHECK_THROWS_AS(cache.evict(), InvariantBroken);
}

TEST_CASE("a block that is used again is no candidate for eviction, and moves to the end when it is left") {
  PrefixCache cache;
  insert_all(cache, {1});
  insert_all(cache, {2});
  cache.unlock(Path{1});
  cache.unlock(Path{2});
  CHECK(cache.unlocked(Path{1}) == 1);
  CHECK(cache.lock(Path{1}) == 1);
  CHECK(cache.unlocked(Path{1}) == 0);
  cache.unlock(Path{1});
  cache.evict();
  CHECK(cache.match(Path{2}) == 0);
  CHECK(cache.match(Path{1}) == 1);
  CHECK_THROWS_AS(cache.unlock(Path{1}), InvariantBroken);
}

TEST_CASE("a KV pool counts pages of requests, lent and evictable ones") {
  KvPool pool(10, 4, 8);  // pages of 4 tokens, prefix blocks of 2 pages
  pool.reserve(5);        // 20 tokens: blocks 0 and 1, and a page of the request's own
  pool.publish(0);
  pool.publish(1);
  CHECK(pool.used() == 5);
  CHECK(pool.lent() == 4);
  CHECK(pool.match(Path{0, 1, 2}, 3) == 2);
  CHECK(pool.match(Path{0, 1, 2}, 1) == 1);
  pool.release(1);
  pool.take_back(Path{0, 1});
  CHECK(pool.used() == 0);
  CHECK(pool.evictable() == 4);
  CHECK(pool.room() == 10);
  CHECK(pool.newly_used(Path{0}) == 2);
  pool.lend(Path{0});
  CHECK(pool.used() == 2);
  CHECK(pool.evictable() == 2);
  pool.reserve(8);  // 6 are free: block 1 goes
  CHECK(pool.evicted_prefix_blocks() == 1);
  CHECK(pool.match(Path{0, 1}, 2) == 1);
  CHECK(pool.used() == 10);
}

TEST_CASE("a block that two requests computed is kept once") {
  KvPool pool(10, 4, 8);
  pool.reserve(4);  // two requests of 2 pages each
  pool.publish(7);
  pool.publish(7);
  CHECK(pool.used() == 2);
  pool.take_back(Path{7});
  CHECK(pool.used() == 2);
  pool.take_back(Path{7});
  CHECK(pool.used() == 0);
  CHECK(pool.evictable() == 2);
  pool.reserve(2);  // a third one that computed it while nobody used it
  pool.publish(7);
  CHECK(pool.used() == 2);
  CHECK(pool.evictable() == 0);
}

}  // namespace epsim
