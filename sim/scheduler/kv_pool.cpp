#include "sim/scheduler/kv_pool.h"

#include <algorithm>

#include "sim/core/check.h"

namespace epsim {

KvPool::KvPool(std::int64_t blocks, int block_tokens, int prefix_block_tokens)
    : blocks_(blocks), block_tokens_(block_tokens), pages_per_prefix_(prefix_block_tokens / block_tokens) {
  EPSIM_CHECK(blocks > 0 && block_tokens > 0, "a KV pool needs blocks, and blocks need room");
  EPSIM_CHECK(prefix_block_tokens % block_tokens == 0, "a prefix block is a whole number of pages");
}

void KvPool::use(std::int64_t blocks) {
  used_ += blocks;
  peak_ = std::max(peak_, used_);
}

void KvPool::reserve(std::int64_t blocks) {
  EPSIM_CHECK(blocks > 0 && has_room(blocks), "more KV blocks reserved than the pool has");
  while (blocks_ - used_ - evictable() < blocks) {
    cache_.evict();
    ++evicted_;
  }
  use(blocks);
}

void KvPool::release(std::int64_t blocks) {
  EPSIM_CHECK(blocks > 0 && blocks <= used_, "more KV blocks returned than were reserved");
  used_ -= blocks;
}

std::int64_t KvPool::match(std::span<const std::int32_t> path, std::int64_t most) const {
  if (!caches_prefixes() || most <= 0) {
    return 0;
  }
  return static_cast<std::int64_t>(cache_.match(path.first(std::min(path.size(), static_cast<std::size_t>(most)))));
}

std::int64_t KvPool::newly_used(std::span<const std::int32_t> path) const {
  return cache_.unlocked(path) * pages_per_prefix_;
}

void KvPool::lend(std::span<const std::int32_t> path) { use(cache_.lock(path) * pages_per_prefix_); }

void KvPool::take_back(std::span<const std::int32_t> path) { used_ -= cache_.unlock(path) * pages_per_prefix_; }

void KvPool::forget_prefixes() {
  EPSIM_CHECK(lent() == 0, "prefix blocks in use are not dropped");
  while (cache_.evictable() > 0) {
    cache_.evict();
  }
}

void KvPool::publish(std::int32_t id) {
  bool was_free = false;
  if (cache_.insert(id, was_free)) {
    return;  // in use before, by the request alone, and still
  }
  if (!was_free) {
    release(pages_per_prefix_);
  }  // else the pages that are given up equal those that come into use
}

}  // namespace epsim
