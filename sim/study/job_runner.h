// The jobs of a study: each has a key, is run once, and leaves a result; results are in the order of the keys, whatever
// the number of threads and processes. Finished results go to a store at once; what a store has is not run again, and
// what another process runs is waited for.
//
//   JobRunner<Figures> runner(keys, {&store, write, read});   // takes what the store has
//   runner.run(which, {.stop = &interrupted()}, [&](std::size_t job, const Abandoned&) { return figures_of(job); });
//   const std::vector<Figures> all = runner.take();
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/cluster/run_result.h"
#include "sim/core/error.h"
#include "sim/core/mapped.h"
#include "sim/study/job_store.h"

namespace epsim {

// A study was cut short by its stop flag, so it has no result; finished jobs are kept.
struct StudyInterrupted : RunFailed {
  StudyInterrupted() : RunFailed("the study was interrupted.") {}
};
// The run; throws StudyInterrupted where it was cut short.
inline RunResult whole_run(RunResult run) { return run.interrupted ? throw StudyInterrupted() : std::move(run); }

// Whether a job before the one that asks has failed: nobody will ask for its result, and it may end by throwing.
using Abandoned = std::function<bool()>;

struct JobControl {
  const std::atomic<bool>* stop = nullptr;  // once true no job begins; those that run see to it themselves
  std::function<void(std::size_t job)> on_finished = {};  // one at a time, in the order in which they finish
};

// Runs `job` for each of `which` on as many threads as the caller lets oneTBB have, begun in that order: the longest
// should come first. Afterwards throws the error of the first of `which` that has one, StudyInterrupted where `stop`
// kept it from beginning. Jobs may run jobs of their own.
void run_jobs(const std::vector<std::size_t>& which, const JobControl& control,
              const std::function<void(std::size_t job, const Abandoned&)>& job);

// 0 to count - 1.
std::vector<std::size_t> all_jobs(std::size_t count);

// A result as a store keeps it (JobStore::save).
struct KeptText {
  std::string text, label = {};
};

// Sees to it that the store has the results of `which`: runs those that neither it has nor another process runs, waits
// for the others, and takes over the jobs of processes that died. Else as run_jobs(). All processes must give the same
// `keys`, in which neighbours are claimed together where there are more than kMostClaims.
inline constexpr std::size_t kMostClaims = 4096;
void run_kept_jobs(const JobStore& store, const std::vector<std::string>& keys, const std::vector<std::size_t>& which,
                   const JobControl& control, const std::function<KeptText(std::size_t job, const Abandoned&)>& job);

// How many neighbours a claim covers.
std::size_t jobs_per_claim(std::size_t count);

// Those of `count` jobs that a shard runs: as run_kept_jobs() claims them, in turn.
std::vector<std::size_t> jobs_of(const Shard& shard, std::size_t count);

// How a store keeps a result.
template <class Result>
struct KeptAs {
  const JobStore* store = nullptr;  // null: nowhere
  std::function<std::string(const Result&)> write = {};
  // Nothing when the text is of another layout: the job is then run again.
  std::function<std::optional<Result>(const std::string&)> read = {};
};

template <class Result>
class JobRunner {
 public:
  explicit JobRunner(std::vector<std::string> keys, KeptAs<Result> kept = {})
      : keys_(std::move(keys)), kept_(std::move(kept)), results_(keys_.size()) {
    for (std::size_t i = 0; kept_.store != nullptr && i < keys_.size(); ++i) {
      read(i);
    }
  }

  const std::optional<Result>& operator[](std::size_t job) const { return results_[job]; }
  // Jobs without a result, in order.
  std::vector<std::size_t> left() const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (!results_[i]) {
        out.push_back(i);
      }
    }
    return out;
  }

  // Those of `which` that have no result yet; `job(i, abandoned)` gives it.
  template <class Job>
  void run(const std::vector<std::size_t>& which, const JobControl& control, const Job& job) {
    std::vector<std::size_t> wanted;
    std::copy_if(which.begin(), which.end(), std::back_inserter(wanted), [&](std::size_t i) { return !results_[i]; });
    if (kept_.store == nullptr) {
      run_jobs(wanted, control, [&](std::size_t i, const Abandoned& abandoned) { results_[i] = job(i, abandoned); });
      return;
    }
    run_kept_jobs(*kept_.store, keys_, which, control, [&](std::size_t i, const Abandoned& abandoned) {
      results_[i] = job(i, abandoned);
      return KeptText{kept_.write(*results_[i])};
    });
    for (const std::size_t i : wanted) {
      if (!results_[i] && !read(i)) {
        throw RunFailed("a result that another process left cannot be read: " + keys_[i]);
      }
    }
  }

  // All results; every job has one.
  std::vector<Result> take() {
    return mapped(results_, [&](std::optional<Result>& result) { return std::move(result).value(); });
  }

 private:
  bool read(std::size_t i) {
    if (const std::optional<std::string> text = kept_.store->load(keys_[i])) {
      results_[i] = kept_.read(*text);
      if (!results_[i]) {
        kept_.store->discard(keys_[i]);
      }
    }
    return results_[i].has_value();
  }

  std::vector<std::string> keys_;
  KeptAs<Result> kept_;
  std::vector<std::optional<Result>> results_;
};

}  // namespace epsim
