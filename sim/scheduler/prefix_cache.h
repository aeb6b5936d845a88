// Which prefix blocks a DP rank holds in its KV memory, by the trace's dense ids (PrefixBlocks), or where it has none by ids that
// the rank gives to what its requests leave.
//
//   Models : a radix tree whose nodes are whole blocks; since an id stands for all before it, the tree is a set of ids
//            and a request's path is its list of blocks. Blocks that a running request uses are locked; the others stay
//            until their memory is needed, and the one goes first whose last user left first, of one user's blocks the
//            hindmost: a block never outlives the blocks that follow it.
//   Ignores: sharing of less than a block; answers whose blocks the trace does not name (RequestTable::answers).
//   Source : SGLang v0.4.8 mem_cache/radix_cache.py (lock_ref along the path, eviction of leaves in order of last
//            access; the access is stamped at matching there); vLLM v1/core/block_pool.py and
//            single_type_kv_cache_manager.py (free queue in order of release, a request's blocks in reverse).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>

namespace epsim {

class PrefixCache {
 public:
  // How many of the ids, from the first on, are here.
  std::size_t match(std::span<const std::int32_t> path) const;
  // How many of these ids, which are here, nobody has locked.
  std::int64_t unlocked(std::span<const std::int32_t> path) const;
  // Locks these ids, which are here; returns how many of them nobody had locked.
  std::int64_t lock(std::span<const std::int32_t> path);
  // Takes in the next block of a path, locked; false when it is here already, which then is locked once more, and
  // `was_free` tells whether nobody had locked it.
  bool insert(std::int32_t id, bool& was_free);
  // Takes back one lock of each; returns how many nobody locks any longer.
  std::int64_t unlock(std::span<const std::int32_t> path);
  // Drops the block that nobody uses for longest; there must be one.
  void evict();

  std::int64_t evictable() const { return evictable_; }  // blocks that nobody has locked
  std::int64_t size() const { return static_cast<std::int64_t>(nodes_.size()); }

 private:
  static constexpr std::int32_t kEnd = -1;
  struct Node {
    std::int32_t locks = 0;
    std::int32_t before = kEnd, after = kEnd;  // in the order of eviction, while there are no locks
  };
  bool lock_one(Node& node);
  void append(std::int32_t id, Node& node);
  void unlink(Node& node);

  std::unordered_map<std::int32_t, Node> nodes_;
  std::int32_t first_ = kEnd, last_ = kEnd;
  std::int64_t evictable_ = 0;
};

}  // namespace epsim
