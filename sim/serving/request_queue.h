// First come, first served, without allocation once it has reached its largest size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace epsim {

// Requests by their position in the trace.
class RequestQueue {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  std::int32_t front() const { return items_[head_]; }
  void push(std::int32_t request) { items_.push_back(request); }
  void pop() {
    ++head_;
    // Closing the gap only when it is half of the whole moves each item at most once per pop, on average.
    if (head_ * 2 >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }

 private:
  std::vector<std::int32_t> items_;
  std::size_t head_ = 0;
};

}  // namespace epsim
