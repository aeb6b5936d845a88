// What was made last, by what it was made of: the runs of a study mostly ask for the same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace epsim {

// The last `kept` values, from any thread; of those that ask for the same one at once, one makes it. What makes a value
// must not wait for another of the same object: with TBB inside, it isolates its tasks.
template <class Key, class Value>
class LastMade {
 public:
  explicit LastMade(std::size_t kept) : kept_(kept) {}

  template <class Make>
  std::shared_ptr<const Value> get(Key key, Make make) {
    const std::shared_ptr<Entry> entry = entry_of(std::move(key));
    const std::lock_guard making(entry->making);  // std::call_once never returns after a throw under ThreadSanitizer
    if (entry->value == nullptr) {
      entry->value = std::make_shared<const Value>(make(std::as_const(entry->key)));
    }
    return entry->value;
  }

 private:
  struct Entry {
    explicit Entry(Key k) : key(std::move(k)) {}
    Key key;
    std::mutex making;
    std::shared_ptr<const Value> value;
  };

  std::shared_ptr<Entry> entry_of(Key key) {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e->key == key; });
    if (known != entries_.end()) {
      return *known;
    }
    entries_.push_back(std::make_shared<Entry>(std::move(key)));
    const std::shared_ptr<Entry> made = entries_.back();
    if (entries_.size() > kept_) {
      entries_.pop_front();
    }
    return made;
  }

  const std::size_t kept_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Entry>> entries_;
};

}  // namespace epsim
