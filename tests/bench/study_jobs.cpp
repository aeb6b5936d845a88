// What the runner of studies costs: 100,000 jobs that do nothing and leave 3 kB each, by one process and by several on
// one folder, then merged. Counters: the runner's time per job and process, the most files in a folder, the merge, memory.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "sim/core/files.h"
#include "sim/study/job_runner.h"

namespace epsim {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kJobs = 100000, kBytes = 3000;
constexpr StoreKind kKind{"bench", "bench.json", "jobs"};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// All jobs but those that other processes run.
void share_jobs(const fs::path& folder) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kJobs; ++i) {
    keys.push_back(fmt::format("{:06}", i));
  }
  const JobStore store(folder, kKind, "{}", false);
  const std::string text(kBytes, 'x');
  run_kept_jobs(store, keys, all_jobs(kJobs), {}, [&](std::size_t, const Abandoned&) { return KeptText{text, "ok"}; });
}

void tiny_jobs(benchmark::State& state) {
  const auto processes = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const TemporaryFolder work("epsim-bench-");
    auto start = std::chrono::steady_clock::now();
    for (int p = 0; p < processes; ++p) {
      if (fork() == 0) {
        share_jobs(work / "out");
        _exit(0);
      }
    }
    while (wait(nullptr) > 0) {
    }
    state.counters["us_per_job"] = seconds_since(start) * 1e6 / kJobs;
    state.counters["files"] =
        static_cast<double>(std::distance(fs::directory_iterator(work / "out/jobs"), fs::directory_iterator()));
    start = std::chrono::steady_clock::now();
    const JobStore store(work / "out", kKind, "{}", false);
    store.finish();
    state.counters["merge_s"] = seconds_since(start);
    state.counters["peak_MiB"] = peak_mib();
    state.counters["MiB"] = static_cast<double>(fs::file_size(work / "out/jobs.pack")) / 1048576;
  }
}
BENCHMARK(tiny_jobs)->Arg(1)->Arg(2)->Arg(8)->Unit(benchmark::kSecond)->UseRealTime()->Iterations(1);

}  // namespace
}  // namespace epsim
