// oneTBB's parts that epsim uses, over std::thread, for ThreadSanitizer: Debian's libtbb is not instrumented, so that what
// it orders looks like a race (tests/campaigns/threads.sh). Four threads a loop, whatever the machine.
#pragma once

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tbb {

template <class Index, class Body>
void parallel_for(Index first, Index last, const Body& body) {
  std::atomic<Index> next{first};
  std::exception_ptr failed;
  std::mutex turn;
  const auto work = [&] {
    for (Index i = next++; i < last; i = next++) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(turn);
        failed = std::current_exception();
        next = last;
      }
    }
  };
  constexpr std::size_t kThreads = 4;
  const std::size_t most = std::min(kThreads, global_control::active_value(global_control::max_allowed_parallelism));
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < most; ++t) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failed) {
    std::rethrow_exception(failed);
  }
}

struct simple_partitioner {};

template <class Index>
class blocked_range {
 public:
  blocked_range(Index begin, Index end, std::size_t = 1) : begin_(begin), end_(end) {}
  Index begin() const { return begin_; }
  Index end() const { return end_; }

 private:
  Index begin_, end_;
};

template <class Index, class Body>
void parallel_for(const blocked_range<Index>& range, const Body& body, simple_partitioner) {
  parallel_for(range.begin(), range.end(), [&](Index i) { body(blocked_range<Index>(i, i + 1)); });
}

}  // namespace tbb
