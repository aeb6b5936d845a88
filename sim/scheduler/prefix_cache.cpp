#include "sim/scheduler/prefix_cache.h"

#include "sim/core/check.h"

namespace epsim {

std::size_t PrefixCache::match(std::span<const std::int32_t> path) const {
  std::size_t n = 0;
  while (n < path.size() && nodes_.contains(path[n])) {
    ++n;
  }
  return n;
}

std::int64_t PrefixCache::unlocked(std::span<const std::int32_t> path) const {
  std::int64_t n = 0;
  // Who locks a block locks all before it, so that the unlocked ones are the last.
  while (n < std::ssize(path) && nodes_.at(path[path.size() - 1 - static_cast<std::size_t>(n)]).locks == 0) {
    ++n;
  }
  return n;
}

void PrefixCache::append(std::int32_t id, Node& node) {
  node.before = last_;
  node.after = kEnd;
  (last_ == kEnd ? first_ : nodes_.at(last_).after) = id;
  last_ = id;
  ++evictable_;
}

void PrefixCache::unlink(Node& node) {
  (node.before == kEnd ? first_ : nodes_.at(node.before).after) = node.after;
  (node.after == kEnd ? last_ : nodes_.at(node.after).before) = node.before;
  --evictable_;
}

bool PrefixCache::lock_one(Node& node) {
  const bool was_free = node.locks++ == 0;
  if (was_free) {
    unlink(node);
  }
  return was_free;
}

std::int64_t PrefixCache::lock(std::span<const std::int32_t> path) {
  std::int64_t freed = 0;
  for (const std::int32_t id : path) {
    freed += lock_one(nodes_.at(id)) ? 1 : 0;
  }
  return freed;
}

bool PrefixCache::insert(std::int32_t id, bool& was_free) {
  const auto [entry, is_new] = nodes_.try_emplace(id);
  if (is_new) {
    entry->second.locks = 1;
    was_free = false;
  } else {
    was_free = lock_one(entry->second);
  }
  return is_new;
}

std::int64_t PrefixCache::unlock(std::span<const std::int32_t> path) {
  std::int64_t released = 0;
  for (std::size_t i = path.size(); i-- > 0;) {
    Node& node = nodes_.at(path[i]);
    EPSIM_CHECK(node.locks > 0, "a prefix block is released once for each time it was taken");
    if (--node.locks == 0) {
      append(path[i], node);
      ++released;
    }
  }
  return released;
}

void PrefixCache::evict() {
  EPSIM_CHECK(first_ != kEnd, "only unused blocks can be evicted");
  const std::int32_t id = first_;
  unlink(nodes_.at(id));
  nodes_.erase(id);
}

}  // namespace epsim
