// The folder that processes share: claims, who lives, and what is left when they end.
#include "sim/study/job_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <tbb/global_control.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <thread>

#include "sim/core/files.h"
#include "sim/study/job_folder.h"
#include "sim/study/job_runner.h"
#include "tests/support/errors.h"
#include "tests/support/paths.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::TempDir;

constexpr StoreKind kSharedKind{"test study", "study.json", "jobs"};

// A process on another machine that claimed `unit`, and touched its file so many seconds ago by the file server's
// clock.
void claim_elsewhere(const fs::path& folder, const std::string& unit, double ago_s) {
  fs::create_directories(folder / "jobs");
  const fs::path file = folder / "jobs/far-7.pack";
  std::ofstream(file) << pack_head(worker_line({"far", "another-boot", 7, 0, true}));
  fs::create_hard_link(file, folder / "jobs" / (unit + ".0.claim"));
  const double at = server_time_s(folder) - ago_s;
  const timespec time{static_cast<time_t>(at), 0};
  const timespec times[2] = {time, time};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

TEST_CASE("a pack gives back what was appended, and passes over what is cut or damaged") {
  const TempDir dir;
  const std::string whole = pack_head("{}") + pack_entry("a", "ok", "one") + pack_entry("b c", "", "two\nlines") +
                            pack_entry("d", "bad", "") + std::string(kPackEnd);
  const auto scanned = [&](const std::string& content, bool skip) {
    std::ofstream(dir / "p") << content;
    const int descriptor = open((dir / "p").c_str(), O_RDONLY);
    PackScan scan;
    std::string out;
    scan_pack(descriptor, scan, skip, [&](const PackedJob& job) {
      out += fmt::format("{}/{}={};", job.key, job.label, read_packed(descriptor, job).value());
    });
    close(descriptor);
    return out + (scan.ended ? "end" : "");
  };
  CHECK(scanned(whole, false) == "a/ok=one;b c/-=two\nlines;d/bad=;end");
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {  // a kill in the middle of any write
    const std::string found = scanned(whole.substr(0, cut), true);
    CHECK(std::string("a/ok=one;b c/-=two\nlines;d/bad=;end").starts_with(found));
  }
  std::string damaged = whole;
  damaged[damaged.find("two")] = 'T';
  CHECK(scanned(damaged, false) == "a/ok=one;");  // it may still be on its way
  CHECK(scanned(damaged, true) == "a/ok=one;d/bad=;end");
}

TEST_CASE("of processes that claim a unit one gets it, and keeps it until it dies") {
  const TempDir dir;
  const JobStore first(dir / "out", kSharedKind, "{}", false);
  auto second = std::make_unique<JobStore>(dir / "out", kSharedKind, "{}", false);
  CHECK(first.claim("u"));
  CHECK(first.claim("u"));
  CHECK_FALSE(second->claim("u"));  // it has not noticed, and is refused by the file
  second->refresh();
  CHECK_FALSE(second->claimable("u"));
  CHECK(second->claim("v"));
  first.refresh();
  CHECK_FALSE(first.claimable("v"));
  second.reset();  // ends with a unit unfinished, like a process that is killed
  first.refresh();
  CHECK(first.claimable("v"));
  CHECK(first.claim("v"));
  first.release("u");
  const JobStore third(dir / "out", kSharedKind, "{}", false);
  CHECK(third.claimable("u"));
  CHECK_FALSE(third.claimable("v"));
}

TEST_CASE("many threads of several processes claim each unit once") {
  const TempDir dir;
  const JobStore a(dir / "out", kSharedKind, "{}", false), b(dir / "out", kSharedKind, "{}", false);
  constexpr int kUnits = 200;
  std::atomic<int> claimed{0};
  std::vector<std::thread> threads;
  for (const JobStore* store : {&a, &b}) {
    threads.emplace_back([&claimed, store] {
      for (int u = 0; u < kUnits; ++u) {
        claimed += store->claim("u" + std::to_string(u)) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(claimed == kUnits);
}

TEST_CASE("a process on another machine lives by the file server's clock alone") {
  const double dead = std::chrono::duration<double>(kDeadAfter).count();
  struct Row {
    double ago_s;
    bool lives;
  };
  // Ahead of us: its touch came after our look, or the server's clock was set back.
  for (const Row& row : {Row{0, true}, Row{dead - 20, true}, Row{dead + 20, false}, Row{-20, true}, Row{-1e6, false}}) {
    CAPTURE(row.ago_s);
    const TempDir dir;
    { const JobStore made(dir / "out", kSharedKind, "{}", false); }
    claim_elsewhere(dir / "out", "u", row.ago_s);
    const JobStore store(dir / "out", kSharedKind, "{}", false);
    CHECK(store.claimable("u") != row.lives);
    CHECK(store.other_worker() == (row.lives ? std::optional<std::string>("far, process 7") : std::nullopt));
    if (!row.lives) {
      CHECK(store.claim("u"));
      CHECK(fs::exists(dir / "out/jobs/u.0.claim"));  // the dead one's link stays
      CHECK(fs::exists(dir / "out/jobs/u.1.claim"));
    }
  }
}

TEST_CASE("who may not write in a folder sees the time of its own clock") {
  const TempDir dir;
  fs::create_directories(dir / "jobs");
  fs::permissions(dir / "jobs", fs::perms::owner_read | fs::perms::owner_exec);
  const bool root = geteuid() == 0;  // root may write anywhere
  REQUIRE((!root || (chown((dir / "jobs").c_str(), 65534, 65534) == 0 && seteuid(65534) == 0)));
  const double seen = server_time_s(dir / "jobs");
  REQUIRE((!root || seteuid(0) == 0));
  fs::permissions(dir / "jobs", fs::perms::owner_all);
  CHECK(std::abs(seen - static_cast<double>(time(nullptr))) < 10);
}

TEST_CASE("results are merged in the order of keys by the last process that finishes") {
  const TempDir dir;
  const JobStore first(dir / "out", kSharedKind, "{}", false), second(dir / "out", kSharedKind, "{}", false);
  first.save("b", "2", "ok");
  second.save("a", "1");
  second.save("c", "3", "failed-x");
  std::thread other([&] { second.finish(); });  // each waits for the other
  first.finish();
  other.join();
  CHECK_FALSE(fs::exists(dir / "out/jobs"));
  CHECK(read_file(dir / "out/jobs.pack") == pack_head("{}") + pack_entry("a", "", "1") + pack_entry("b", "ok", "2") +
                                                pack_entry("c", "failed-x", "3") + std::string(kPackEnd));
  first.refresh();
  CHECK(first.load("a") == "1");
  CHECK(second.load("b") == "2");

  CHECK(first.label_of("c") == "failed-x");
  const JobStore third(dir / "out", kSharedKind, "{}", false, {.drop_label = "failed"});
  CHECK_FALSE(third.has("c"));
  CHECK(third.has("a"));
  third.save("c", "4");
  third.finish();
  CHECK(JobStore(dir / "out", kSharedKind, "{}", false).load("c") == "4");
}

TEST_CASE("a process that still works is waited for a while, and then left to merge") {
  const TempDir dir;
  const JobStore at_work(dir / "out", kSharedKind, "{}", false);
  at_work.save("a", "1");
  {
    const JobStore store(dir / "out", kSharedKind, "{}", false);
    store.save("b", "2");
    at_work.save("x", "0", "failed");
    const InputError refused =
        error_of<InputError>([&] { JobStore(dir / "out", kSharedKind, "{}", false, {.drop_label = "failed"}); });
    test::check_contains(refused.what(), {"another process works on this test study ("});
    store.finish();
  }
  CHECK(fs::exists(dir / "out/jobs"));
  at_work.finish();
  CHECK_FALSE(fs::exists(dir / "out/jobs"));
  CHECK(JobStore(dir / "out", kSharedKind, "{}", false).load("b") == "2");
}

TEST_CASE("what another process did between opening the folder and the first claim is not done again") {
  const TempDir dir;
  const std::vector<std::string> keys{"a", "b", "c"};
  const JobStore late(dir / "out", kSharedKind, "{}", false);
  int runs = 0;
  const auto job = [&](std::size_t i, const Abandoned&) {
    ++runs;
    return KeptText{keys[i]};
  };
  run_kept_jobs(JobStore(dir / "out", kSharedKind, "{}", false), keys, all_jobs(keys.size()), {}, job);
  CHECK(runs == 3);
  run_kept_jobs(late, keys, all_jobs(keys.size()), {}, job);
  CHECK(runs == 3);
}

TEST_CASE("two processes run each job once, and jobs in plenty are claimed by neighbours") {
  const TempDir dir;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 3 * kMostClaims; ++i) {
    keys.push_back(fmt::format("{:06}", i));
  }
  std::vector<std::atomic<int>> runs(keys.size());
  JobStore(dir / "out", kSharedKind, "{}", false);  // threads have one pid, by which processes tell new folders apart
  std::vector<std::thread> processes;
  for (int p = 0; p < 2; ++p) {
    processes.emplace_back([&] {
      try {
        const JobStore store(dir / "out", kSharedKind, "{}", false);
        run_kept_jobs(store, keys, all_jobs(keys.size()), {}, [&](std::size_t i, const Abandoned&) {
          ++runs[i];
          return KeptText{keys[i]};
        });
        std::size_t claims = 0;
        for (const auto& entry : fs::directory_iterator(store.path() / "jobs")) {
          claims += entry.path().extension() == ".claim" ? 1 : 0;
        }
        CHECK(claims == kMostClaims);
      } catch (const std::exception& error) {
        FAIL_CHECK(std::string(error.what()));
      }
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
  CHECK(std::all_of(runs.begin(), runs.end(), [](const std::atomic<int>& count) { return count == 1; }));
}

// What a kill leaves in between must still be taken for a study: with the manifest gone first, --overwrite was refused.
TEST_CASE("a study's folder is removed with its manifest last") {
  const TempDir place;
  const fs::path folder = place.path() / "study";
  { const JobStore store(folder, kSharedKind, "{}", false); }
  for (const char* name : {"a", "jobs.pack", "z"}) {
    std::ofstream(folder / name) << "x";
  }
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  REQUIRE(inotify_add_watch(watch, folder.c_str(), IN_DELETE) >= 0);
  remove_study(folder, kSharedKind);
  CHECK_FALSE(fs::exists(folder));
  alignas(inotify_event) char events[4096];
  const ssize_t size = read(watch, events, sizeof events);
  close(watch);
  std::string last;
  int deleted = 0;
  for (ssize_t at = 0; at < size; ++deleted) {
    const auto* event = reinterpret_cast<const inotify_event*>(events + at);
    last = event->len > 0 ? event->name : last;
    at += static_cast<ssize_t>(sizeof *event + event->len);
  }
  CHECK(deleted >= 4);
  CHECK(last == kSharedKind.manifest);
}

TEST_CASE("shards cover every job once") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{10}, 2 * kMostClaims + 1}) {
    std::vector<int> seen(count);
    for (std::size_t s = 0; s < 3; ++s) {
      for (const std::size_t i : jobs_of({s, 3}, count)) {
        ++seen[i];
      }
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

}  // namespace
}  // namespace epsim
