#pragma once

#include <atomic>
#include <cstddef>

namespace tbb {

class global_control {
 public:
  enum parameter { max_allowed_parallelism };
  global_control(parameter, std::size_t value) : before_(most().exchange(value)) {}
  global_control(const global_control&) = delete;
  ~global_control() { most() = before_; }
  static std::size_t active_value(parameter) { return most(); }

 private:
  static std::atomic<std::size_t>& most() {
    static std::atomic<std::size_t> value{64};
    return value;
  }
  std::size_t before_;
};

}  // namespace tbb
