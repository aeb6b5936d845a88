// The event queue against std::priority_queue in the hold model: with a fixed number of events pending, take the first
// and push it again some time later. Both queues run in turns on the same draws, and each line shows the nanoseconds
// per (pop + push) of both and their ratio, so that a busy machine slows both sides of the ratio alike.
#include "sim/engine/event_queue.h"

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "sim/core/rng.h"

namespace epsim {
namespace {

struct Event {
  std::int32_t kind = 0, rank = 0;
  std::int64_t step = 0;
};

// What one would write without a queue of one's own: the same key, compared field by field.
class StandardQueue {
 public:
  struct Entry {
    EventKey key;
    Event event;
  };
  void push(Ticks at, Phase phase, const Event& event) { queue_.push({{at, phase, pushed_++}, event}); }
  Entry pop() {
    const Entry first = queue_.top();
    queue_.pop();
    return first;
  }

 private:
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const { return std::greater<>()(a.key, b.key); }
  };
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
  std::uint64_t pushed_ = 0;
};

constexpr std::size_t kDraws = 1 << 16;
constexpr int kHoldsPerTurn = 100000;

// Exponential delays, 1 ms on average. With ties they are rounded up to half milliseconds, so that a sixth of all
// pending events shares an instant, as behind a barrier.
std::vector<Ticks> delays(bool ties) {
  RandomStream random(Seed{7}, "bench-event-queue", ties ? 1 : 0);
  std::vector<Ticks> out(kDraws);
  for (Ticks& delay : out) {
    const double ms = random.exponential(1.0);
    delay = to_ticks(Seconds((ties ? std::ceil(ms * 2.0) / 2.0 : ms) * 1e-3));
  }
  return out;
}

// Processor time of this thread: what others take from it does not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

template <class Queue>
class Hold {
 public:
  Hold(int pending, const std::vector<Ticks>& delays) : delays_(delays) {
    for (int i = 0; i < pending; ++i) {
      queue_.push(next_delay(), static_cast<Phase>(i % 5), {i % 3, i, 0});
    }
  }
  // Nanoseconds per hold over one turn.
  double turn() {
    const double start = thread_ns();
    for (int i = 0; i < kHoldsPerTurn; ++i) {
      auto first = queue_.pop();
      sum_ = sum_ * 31 + static_cast<std::uint64_t>(first.event.rank);
      ++first.event.step;
      queue_.push(first.key.at + next_delay(), first.key.phase, first.event);
    }
    return (thread_ns() - start) / kHoldsPerTurn;
  }
  std::uint64_t sum() const { return sum_; }  // of the order in which events came

 private:
  Ticks next_delay() { return delays_[drawn_++ % kDraws]; }
  const std::vector<Ticks>& delays_;
  std::size_t drawn_ = 0;
  std::uint64_t sum_ = 0;
  Queue queue_;
};

void hold(benchmark::State& state) {
  const std::vector<Ticks> draws = delays(state.range(1) != 0);
  const int pending = static_cast<int>(state.range(0));
  Hold<StandardQueue> standard(pending, draws);
  Hold<EventQueue<Event>> ours(pending, draws);
  standard.turn();  // both reach their steady state
  ours.turn();
  double standard_ns = std::numeric_limits<double>::infinity(), ours_ns = standard_ns;
  for ([[maybe_unused]] auto turn : state) {
    standard_ns = std::min(standard_ns, standard.turn());
    const double ns = ours.turn();
    ours_ns = std::min(ours_ns, ns);
    state.SetIterationTime(ns * 1e-9 * kHoldsPerTurn);
  }
  if (standard.sum() != ours.sum()) {
    state.SkipWithError("the two queues disagree on the order");
  }
  state.counters["std_ns"] = standard_ns;
  state.counters["ours_ns"] = ours_ns;
  state.counters["ratio"] = ours_ns / standard_ns;
}
BENCHMARK(hold)
    ->ArgNames({"pending", "ties"})
    ->ArgsProduct({{100, 1000, 10000, 100000}, {0, 1}})
    ->UseManualTime()
    ->Iterations(40)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace epsim
