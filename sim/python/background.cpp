#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "sim/core/refuse.h"
#include "sim/python/bindings.h"

namespace epsim::python {
namespace {

constexpr std::chrono::milliseconds kLook{50};

std::size_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace

void in_background(int threads, const py::object& progress, const std::function<void(const Follow&)>& work) {
  refuse_if(threads < 0 || threads > 4096, "threads",
            std::to_string(threads) + " is not a number of threads from 0 (all cores) to 4096.");
  std::atomic<bool> stop{false};
  Tally tally;
  std::exception_ptr raised;  // by Ctrl-C or by `progress`
  const auto look = [&] {
    const py::gil_scoped_acquire lock;
    try {
      if (PyErr_CheckSignals() != 0) {
        throw py::error_already_set();
      }
      if (!progress.is_none()) {
        progress(tally.done.load(), tally.all.load());
      }
    } catch (...) {
      raised = std::current_exception();
      stop = true;
    }
  };
  std::exception_ptr failed;
  {
    const py::gil_scoped_release unlock;
    std::future<void> end = std::async(std::launch::async, [&] {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                      threads > 0 ? static_cast<std::size_t>(threads) : cores());
      work({stop, tally});
    });
    while (end.wait_for(kLook) != std::future_status::ready) {
      if (!raised) {
        look();
      }
    }
    try {
      end.get();
    } catch (...) {
      failed = std::current_exception();
    }
    if (!raised && !failed) {
      look();  // the last count, and a Ctrl-C of the last moment
    }
  }
  if (raised) {
    std::rethrow_exception(raised);
  }
  if (failed) {
    std::rethrow_exception(failed);
  }
}

}  // namespace epsim::python
