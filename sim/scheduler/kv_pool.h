// The paged KV memory of one DP rank. Pages belong to a running request, or to the prefix cache, which lends whole
// prefix blocks to any number of requests and keeps those that nobody uses until a request needs their memory.
//
//   blocks() = in use (own pages of requests, and locked pages of the cache) + evictable + free
#pragma once

#include <cstdint>
#include <span>

#include "sim/scheduler/prefix_cache.h"

namespace epsim {

class KvPool {
 public:
  // `prefix_block_tokens`: tokens of a prefix block, a whole number of pages; 0 = no prefix cache.
  KvPool(std::int64_t blocks, int block_tokens, int prefix_block_tokens = 0);

  // Pages that this many tokens take; the last one may be partly empty.
  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  int block_tokens() const { return block_tokens_; }
  bool has_room(std::int64_t blocks) const { return blocks <= room(); }
  // Pages that a request can have: free ones, and those of prefix blocks that nobody uses.
  std::int64_t room() const { return blocks_ - used_; }

  void reserve(std::int64_t blocks);  // evicts as needed
  void release(std::int64_t blocks);

  bool caches_prefixes() const { return pages_per_prefix_ > 0; }
  std::int64_t pages_per_prefix_block() const { return pages_per_prefix_; }
  // Prefix blocks of the path that are here, at most `most`.
  std::int64_t match(std::span<const std::int32_t> path, std::int64_t most) const;
  // Pages that would come into use if these prefix blocks, all of them here, were lent once more.
  std::int64_t newly_used(std::span<const std::int32_t> path) const;
  // The blocks of a path, all of them here, come into use by one more request; take_back() ends that.
  void lend(std::span<const std::int32_t> path);
  void take_back(std::span<const std::int32_t> path);
  // The pages of a prefix block that its request has computed become the cache's, lent to that request. When the cache
  // has the block already, the request uses that one and its own pages are free.
  void publish(std::int32_t id);

  // Drops all prefix blocks; no request uses any.
  void forget_prefixes();

  std::int64_t blocks() const { return blocks_; }
  std::int64_t used() const { return used_; }
  std::int64_t peak() const { return peak_; }
  std::int64_t evictable() const { return cache_.evictable() * pages_per_prefix_; }
  // Pages of prefix blocks in the cache that requests use now.
  std::int64_t lent() const { return (cache_.size() - cache_.evictable()) * pages_per_prefix_; }
  std::int64_t evicted_prefix_blocks() const { return evicted_; }

 private:
  void use(std::int64_t blocks);

  std::int64_t blocks_, used_ = 0, peak_ = 0;
  int block_tokens_;
  std::int64_t pages_per_prefix_ = 0;
  std::int64_t evicted_ = 0;
  PrefixCache cache_;
};

}  // namespace epsim
