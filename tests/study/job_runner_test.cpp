// The runner of every study: results by key, errors of the first job, work that a store has is not done again.
#include "sim/study/job_runner.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "sim/core/files.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

using test::error_of;
using test::TempDir;

constexpr StoreKind kKind{"test study", "study.json", "jobs"};

std::vector<std::string> keys_of(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back("job-" + std::to_string(i));
  }
  return out;
}

KeptAs<int> kept_in(const JobStore* store) {
  return {store, [](const int& result) { return std::to_string(result); },
          [](const std::string& text) { return text.empty() ? std::nullopt : std::optional(std::stoi(text)); }};
}

// Every file below the folder.
std::map<std::string, std::string> contents(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      out[entry.path().lexically_relative(folder).string()] = read_file(entry.path());
    }
  }
  return out;
}

TEST_CASE("results are in the order of the keys, on any number of threads") {
  for (const std::size_t threads : {1, 2, 4}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    JobRunner<int> runner(keys_of(20));
    std::vector<std::size_t> begun;
    std::mutex turn;
    runner.run(all_jobs(20), {}, [&](std::size_t i, const Abandoned&) {
      const std::lock_guard lock(turn);
      begun.push_back(i);
      return static_cast<int>(i * i);
    });
    CHECK(std::set<std::size_t>(begun.begin(), begun.end()).size() == 20);
    if (threads == 1) {
      CHECK(begun == all_jobs(20));  // the longest come first
    }
    const std::vector<int> found = runner.take();
    for (std::size_t i = 0; i < 20; ++i) {
      CHECK(found[i] == static_cast<int>(i * i));
    }
  }
}

TEST_CASE("of several errors the first job's is thrown, and jobs after it may give up") {
  for (const std::size_t threads : {1, 2}) {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
    std::atomic<int> finished{0};
    const auto job = [&](std::size_t i, const Abandoned& abandoned) {
      if (i == 2 || i == 5) {
        throw RunFailed("job " + std::to_string(i));
      }
      CHECK((i < 2 || !abandoned() || i > 2));
      ++finished;
    };
    CHECK(std::string(error_of<RunFailed>([&] { run_jobs(all_jobs(8), {}, job); }).what()) == "job 2");
    CHECK(finished >= 2);  // those before it ran
    if (threads == 1) {
      CHECK(finished == 2);  // those after it did not begin
    }
  }
}

TEST_CASE("what a store has is not run again, and one damaged or unwanted result is") {
  const TempDir dir;
  std::vector<std::size_t> run;
  const auto job = [&](std::size_t i, const Abandoned&) {
    run.push_back(i);
    return static_cast<int>(10 + i);
  };
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  {
    const JobStore store(dir / "out", kKind, "{\"seed\": 1}", false);
    JobRunner<int> first(keys_of(4), kept_in(&store));
    first.run({0, 2}, {}, job);
    CHECK(first.left() == std::vector<std::size_t>{1, 3});
  }
  const JobStore store(dir / "out", kKind, "{\"seed\": 1}", false);
  store.save("job-2", "");
  JobRunner<int> second(keys_of(4), kept_in(&store));
  CHECK(second.left() == std::vector<std::size_t>{1, 2, 3});
  CHECK(second[0] == 10);
  std::vector<std::size_t> told;
  second.run(all_jobs(4), {.on_finished = [&](std::size_t i) { told.push_back(i); }}, job);
  CHECK(run == std::vector<std::size_t>{0, 2, 1, 2, 3});
  CHECK(told == std::vector<std::size_t>{1, 2, 3});
  CHECK(second.take() == std::vector<int>{10, 11, 12, 13});
}

TEST_CASE("a stop keeps what is finished and lets no further job begin") {
  const TempDir dir;
  std::atomic<bool> stop{false};
  const JobStore store(dir / "out", kKind, "{}", false);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  JobRunner<int> runner(keys_of(5), kept_in(&store));
  const auto job = [&](std::size_t i, const Abandoned&) {
    stop = i == 1;
    return static_cast<int>(i);
  };
  CHECK_THROWS_AS(runner.run(all_jobs(5), {.stop = &stop}, job), StudyInterrupted);
  CHECK(runner.left() == std::vector<std::size_t>{2, 3, 4});
  CHECK(JobRunner<int>(keys_of(5), kept_in(&store)).left() == runner.left());
}

TEST_CASE("a folder goes on with the inputs it was made from alone") {
  const TempDir dir;
  { const JobStore made(dir / "out", kKind, "{\"seed\": 1}", false); }
  CHECK(holds_study(dir / "out", kKind, "{\"seed\": 1}"));
  CHECK_FALSE(holds_study(dir / "out", kKind, "{\"seed\": 2}"));
  const InputError other = error_of<InputError>([&] { JobStore(dir / "out", kKind, "{\"seed\": 2}", false); });
  test::check_contains(other.what(), {"a test study with other inputs", "seed was 1 and is 2", "--overwrite"});
  const InputError build =
      error_of<InputError>([&] { JobStore(dir / "out", kKind, "{\"seed\": 1, \"program_hash\": \"b\"}", false); });
  test::check_contains(build.what(), {"a test study of another build of epsim (program_hash absent; this one is b)"});
  const StoreKind another{"another study", kKind.manifest, kKind.jobs};
  const InputError kind = error_of<InputError>([&] { JobStore(dir / "out", another, "{\"seed\": 1}", false); });
  test::check_contains(kind.what(), {"holds a test study", "another study"});
  CHECK_FALSE(holds_study(dir / "out", another, "{\"seed\": 1}"));
  const JobStore held(dir / "out", kKind, "{\"seed\": 1}", false);
  CHECK(held.claim("job-0"));
  const InputError busy = error_of<InputError>([&] { JobStore(dir / "out", kKind, "{\"seed\": 1}", true); });
  test::check_contains(busy.what(), {"another process works on this test study (", "--overwrite is refused"});
}

// The study of the test below: three jobs on two threads, each a while.
void run_study(const std::filesystem::path& folder) {
  const JobStore store(folder, kKind, "{}", false);
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
  JobRunner<int> runner(keys_of(6), kept_in(&store));
  runner.run(all_jobs(6), {}, [](std::size_t i, const Abandoned&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return static_cast<int>(i);
  });
  store.finish();
}

// Whether some process has finished the job.
bool ran(const std::filesystem::path& folder, const std::string& key) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".pack" && read_file(entry.path()).find(" " + key + "\n") != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST_CASE("killed in the middle and run again, a study leaves the same bytes") {
  const TempDir dir;
  run_study(dir / "whole");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    run_study(dir / "killed");
    _exit(0);
  }
  while (!ran(dir / "killed/jobs", "job-2")) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  for (const auto& entry : std::filesystem::directory_iterator(dir / "killed/jobs")) {
    if (entry.path().extension() == ".pack") {
      std::ofstream(entry.path(), std::ios::app) << "job 1 0 - job";  // as a kill leaves it in the middle of a write
    }
  }
  run_study(dir / "killed");
  CHECK(contents(dir / "killed") == contents(dir / "whole"));
}

}  // namespace
}  // namespace epsim
