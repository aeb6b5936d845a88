// The requests that wait for a DP rank, without allocation once it has reached its largest size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace epsim {

// Requests by their position in the trace, first come first served unless the caller reorders them.
class RequestQueue {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::size_t size() const { return items_.size() - head_; }
  std::int32_t front() const { return items_[head_]; }
  void push(std::int32_t request) { items_.push_back(request); }
  void push_front(std::int32_t request) {
    if (head_ > 0) {
      items_[--head_] = request;
    } else {
      items_.insert(items_.begin(), request);
    }
  }
  void pop() {
    ++head_;
    // Closing the gap only when it is half of the whole moves each item at most once per pop, on average.
    if (head_ * 2 >= items_.size()) {
      items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }
  // Takes a request out of the queue if it is there.
  bool erase(std::int32_t request) {
    const auto from = items_.begin() + static_cast<std::ptrdiff_t>(head_);
    const auto at = std::find(from, items_.end(), request);
    if (at == items_.end()) {
      return false;
    }
    items_.erase(at);
    return true;
  }
  // From front to back; the caller may reorder them.
  std::span<std::int32_t> waiting() { return std::span(items_).subspan(head_); }
  std::span<const std::int32_t> waiting() const { return std::span(items_).subspan(head_); }

 private:
  std::vector<std::int32_t> items_;
  std::size_t head_ = 0;
};

}  // namespace epsim
