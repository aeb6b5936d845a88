#pragma once

#include <map>
#include <mutex>
#include <thread>

namespace tbb {

template <class Value>
class enumerable_thread_specific {
 public:
  template <class... Arguments>
  explicit enumerable_thread_specific(Arguments... arguments) : made_(arguments...) {}
  Value& local() {
    const std::lock_guard lock(turn_);
    return values_.try_emplace(std::this_thread::get_id(), made_).first->second;
  }

 private:
  const Value made_;
  std::mutex turn_;
  std::map<std::thread::id, Value> values_;
};

}  // namespace tbb
