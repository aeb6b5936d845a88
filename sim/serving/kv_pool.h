// The paged KV memory of one DP rank: blocks are reserved when a request is admitted and returned when it ends.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/core/check.h"

namespace epsim {

class KvPool {
 public:
  KvPool(std::int64_t blocks, int block_tokens) : blocks_(blocks), block_tokens_(block_tokens) {
    EPSIM_CHECK(blocks > 0 && block_tokens > 0, "a KV pool needs blocks, and blocks need room");
  }

  // Blocks that this many tokens take; the last one may be partly empty.
  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }
  bool has_room(std::int64_t blocks) const { return blocks <= blocks_ - used_; }

  void reserve(std::int64_t blocks) {
    EPSIM_CHECK(blocks > 0 && has_room(blocks), "more KV blocks reserved than the pool has");
    used_ += blocks;
    peak_ = std::max(peak_, used_);
  }
  void release(std::int64_t blocks) {
    EPSIM_CHECK(blocks > 0 && blocks <= used_, "more KV blocks returned than were reserved");
    used_ -= blocks;
  }

  std::int64_t blocks() const { return blocks_; }
  std::int64_t used() const { return used_; }
  std::int64_t peak() const { return peak_; }

 private:
  std::int64_t blocks_, used_ = 0, peak_ = 0;
  int block_tokens_;
};

}  // namespace epsim
