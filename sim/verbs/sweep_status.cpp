#include "sim/verbs/sweep_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/report/text_table.h"
#include "sim/study/job_folder.h"
#include "sim/study/job_runner.h"
#include "sim/verbs/sweep_tables.h"

namespace epsim {

namespace fs = std::filesystem;

namespace {

std::size_t points_in(const fs::path& manifest) {
  const auto json = nlohmann::json::parse(read_file(manifest), nullptr, false);
  try {
    std::size_t out = std::max<std::size_t>(1, json.at("policies").size());
    for (const auto& axis : json.at("axes")) {
      out *= axis.at("values").size();
    }
    return out;
  } catch (const nlohmann::json::exception&) {
    throw InputError({manifest.string(), 0, ""}, "this is not the description of a sweep.");
  }
}

std::string duration_text(double seconds) {
  return seconds < 120      ? fmt::format("{:.0f} s", seconds)
         : seconds < 7200   ? fmt::format("{:.0f} min", seconds / 60)
         : seconds < 172800 ? fmt::format("{:.1f} h", seconds / 3600)
                            : fmt::format("{:.1f} days", seconds / 86400);
}

// Points that a process has claimed and not finished.
std::size_t claimed_points(const JobFolder& folder, std::uint64_t inode, std::size_t count) {
  const std::size_t size = jobs_per_claim(count);
  std::size_t out = 0;
  for (std::size_t first = 0; first < count; first += size) {
    if (folder.claim_of(key_of_point(first)).inode == inode) {
      for (std::size_t i = first; i < std::min(first + size, count); ++i) {
        out += folder.has(key_of_point(i)) ? 0 : 1;
      }
    }
  }
  return out;
}

}  // namespace

std::string sweep_status(const fs::path& path) {
  const fs::path manifest = path / kSweepStore.manifest;
  std::error_code none;
  refuse_if(!fs::is_directory(path, none), {path.string(), 0, ""}, "there is no such folder.");
  refuse_if(!fs::is_regular_file(manifest, none), {path.string(), 0, ""},
            fmt::format("the folder holds no sweep: it has no {}.", kSweepStore.manifest));
  const std::size_t count = points_in(manifest);
  JobFolder folder(path, kSweepStore.jobs);
  folder.refresh(0);
  std::size_t done = 0, failed = 0, running = 0;
  for (std::size_t i = 0; i < count; ++i) {
    done += folder.has(key_of_point(i)) ? 1 : 0;
    failed += folder.label_of(key_of_point(i)).starts_with(kFailedLabel) ? 1 : 0;
  }
  TextTable table;
  table.add_columns({{"process"}, {"state"}}, Align::kLeft);
  table.add_columns({{"finished"}, {"running"}});
  const double now_s = folder.packs().size() > 1 ? server_time_s(path) : 0;
  double per_s = 0;
  std::size_t processes = 0;
  for (const JobFolder::Pack& pack : folder.packs()) {
    if (&pack == &folder.packs().front() || pack.gone || pack.writer.host.empty()) {
      continue;
    }
    const std::size_t at = pack.lives ? claimed_points(folder, pack.inode, count) : 0;
    const double worked_s = now_s - pack.writer.started_s;
    per_s += pack.lives && worked_s > 0 ? static_cast<double>(pack.scan.results) / worked_s : 0;
    running += at;
    ++processes;
    table.add_row({fmt::format("{}, {}", pack.writer.host, pack.writer.pid),
                   pack.lives        ? "at work"
                   : pack.scan.ended ? "ended"
                                     : "lost",
                   std::to_string(pack.scan.results), std::to_string(at)});
  }
  const std::size_t left = count - done;
  std::string out = fmt::format("sweep in {}: {} of {} points done, {} of them failed; {} running, {} left\n",
                                path.string(), done, count, failed, running, left - running);
  if (per_s > 0 && left > 0) {
    out += fmt::format("about {} left at {:.3g} points/s\n", duration_text(static_cast<double>(left) / per_s), per_s);
  }
  if (left == 0) {
    out += fs::exists(path / "results.csv", none) ? "the results are there\n"
                                                  : "the command of the sweep gathers the results\n";
  } else if (running == 0) {
    out += "no process is running; rerun the sweep's command to continue\n";
  }
  if (failed > 0) {
    out += "the command of the sweep with --retry-failed runs the failed points again\n";
  }
  return processes > 0 ? out + "\n" + table.render(2) : out;
}

}  // namespace epsim
