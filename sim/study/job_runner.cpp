#include "sim/study/job_runner.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <unordered_map>

#include "sim/core/fingerprint.h"
#include "sim/study/mpi_farm.h"

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

namespace {

constexpr std::chrono::milliseconds kFirstPoll{5}, kLastPoll{1000};

struct Unit {
  const std::string* name;  // the key of its first job
  std::vector<std::size_t> jobs;
};

// Jobs by unit, in the order of the first job of each.
std::vector<Unit> units_of(const std::vector<std::string>& keys, const std::vector<std::size_t>& which) {
  const std::size_t size = jobs_per_claim(keys.size());
  std::vector<Unit> out;
  std::unordered_map<std::size_t, std::size_t> place;
  for (const std::size_t i : which) {
    const auto [at, added] = place.try_emplace(i / size, out.size());
    if (added) {
      out.push_back({&keys[i / size * size], {}});
    }
    out[at->second].jobs.push_back(i);
  }
  return out;
}

// Releases a claimed unit that was not finished.
struct UnfinishedUnit {
  const JobStore& store;
  const std::string& name;
  bool finished = false;
  ~UnfinishedUnit() {
    if (!finished) {
      store.release(name);
    }
  }
};

}  // namespace

std::size_t jobs_per_claim(std::size_t count) {
  return std::max<std::size_t>(1, (count + kMostClaims - 1) / kMostClaims);
}

std::vector<std::size_t> jobs_of(const Shard& shard, std::size_t count) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (shard.has(i / jobs_per_claim(count))) {
      out.push_back(i);
    }
  }
  return out;
}

namespace {

// run_kept_jobs() on its way.
class KeptJobs {
 public:
  KeptJobs(const JobStore& store, const std::vector<std::string>& keys, const std::vector<std::size_t>& which,
           const JobControl& control, const std::function<KeptText(std::size_t job, const Abandoned&)>& job)
      : store_(store),
        keys_(keys),
        control_(control),
        job_(job),
        units_(units_of(keys, which)),
        unreported_(left(which)) {}

  void run() {
    if (!unreported_.empty()) {
      store_.join();
    }
    if (store_.farm() != nullptr) {
      run_dealt(*store_.farm());
    }
    for (auto poll = kFirstPoll; !unreported_.empty();) {
      std::vector<const Unit*> open;
      for (const Unit& unit : units_) {
        if (!left(unit.jobs).empty() && store_.claimable(*unit.name)) {
          open.push_back(&unit);
        }
      }
      run_jobs(all_jobs(open.size()), {.stop = control_.stop},
               [&](std::size_t u, const Abandoned& abandoned) { run_unit(*open[u], abandoned); });
      check_stop();
      if (open.empty()) {
        std::this_thread::sleep_for(poll);
      }
      poll = open.empty() ? std::min(2 * poll, kLastPoll) : kFirstPoll;
      notice_others();
    }
  }

 private:
  std::set<std::size_t> left(const std::vector<std::size_t>& jobs) const {
    std::set<std::size_t> out;
    std::copy_if(jobs.begin(), jobs.end(), std::inserter(out, out.end()),
                 [&](std::size_t i) { return !store_.has(keys_[i]); });
    return out;
  }
  void check_stop() const {
    if (control_.stop != nullptr && *control_.stop) {
      throw StudyInterrupted();
    }
  }
  void report(std::size_t i) {
    const std::lock_guard lock(turn_);
    if (unreported_.erase(i) > 0 && control_.on_finished) {
      control_.on_finished(i);
    }
  }

  void run_unit(const Unit& of, const Abandoned& abandoned) {
    if (left(of.jobs).empty() || !store_.claim(*of.name)) {
      return;
    }
    UnfinishedUnit unit{store_, *of.name};
    for (const std::size_t i : left(of.jobs)) {  // a look at other processes between the two may have told of results
      check_stop();
      const KeptText kept = job_(i, abandoned);
      store_.save(keys_[i], kept.text, kept.label);
      report(i);
    }
    unit.finished = true;
  }

  // As many as rank 0 gives.
  void run_dealt(MpiFarm& farm) {
    Fingerprint list;
    for (const Unit& unit : units_) {
      list.add(std::string_view(*unit.name));
    }
    std::atomic<bool> more{true};
    run_jobs(all_jobs(units_.size()), {.stop = control_.stop}, [&](std::size_t, const Abandoned& abandoned) {
      const std::size_t u = more ? farm.deal(list.value(), units_.size()) : units_.size();
      if (u < units_.size()) {
        run_unit(units_[u], abandoned);
      } else {
        more = false;
      }
    });
    notice_others();
  }

  void notice_others() {
    store_.refresh();
    for (const std::size_t i : std::set<std::size_t>(unreported_)) {
      if (store_.has(keys_[i])) {
        report(i);
      }
    }
  }

  const JobStore& store_;
  const std::vector<std::string>& keys_;
  const JobControl& control_;
  const std::function<KeptText(std::size_t job, const Abandoned&)>& job_;
  std::vector<Unit> units_;
  std::mutex turn_;
  std::set<std::size_t> unreported_;
};

}  // namespace

void run_kept_jobs(const JobStore& store, const std::vector<std::string>& keys, const std::vector<std::size_t>& which,
                   const JobControl& control, const std::function<KeptText(std::size_t job, const Abandoned&)>& job) {
  KeptJobs(store, keys, which, control, job).run();
}

}  // namespace epsim
