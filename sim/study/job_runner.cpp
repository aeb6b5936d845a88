#include "sim/study/job_runner.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <exception>
#include <mutex>
#include <numeric>

namespace epsim {

std::vector<std::size_t> all_jobs(std::size_t count) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

void run_jobs(const std::vector<std::size_t>& which, const JobControl& control,
              const std::function<void(std::size_t job, const Abandoned&)>& job) {
  std::vector<std::exception_ptr> errors(which.size());
  std::atomic<std::size_t> next{0}, first_failed{which.size()};
  std::mutex turn;
  const auto run = [&](std::size_t place) {
    const Abandoned abandoned = [&, place] { return first_failed.load() < place; };
    if (control.stop != nullptr && *control.stop) {
      throw StudyInterrupted();
    }
    if (!abandoned()) {
      job(which[place], abandoned);
      const std::lock_guard lock(turn);
      if (control.on_finished) {
        control.on_finished(which[place]);
      }
    }
  };
  const auto run_next = [&](std::size_t) {
    const std::size_t place = next++;
    try {
      run(place);
    } catch (...) {
      errors[place] = std::current_exception();
      std::size_t seen = first_failed.load();
      while (place < seen && !first_failed.compare_exchange_weak(seen, place)) {
      }
    }
  };
  // One job a task: they differ in length. A thread that waits here must not begin another study's job inside this one.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, which.size(), 1),
        [&](const tbb::blocked_range<std::size_t>& range) { run_next(range.begin()); }, tbb::simple_partitioner());
  });
  if (first_failed < which.size()) {
    std::rethrow_exception(errors[first_failed]);
  }
}

}  // namespace epsim
