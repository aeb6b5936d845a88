#include "sim/app/sweep_slurm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

#include "sim/core/error.h"
#include "sim/core/files.h"
#include "sim/core/refuse.h"
#include "sim/core/text.h"

namespace epsim::app {

namespace fs = std::filesystem;

namespace {

constexpr int kMostParts = 100000;

std::string quoted(const std::string& word) { return "'" + replaced(word, "'", "'\\''") + "'"; }

// The words without the options that are the submitting command's own.
std::vector<std::string> words_of_parts(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 7> kSwitches{"--slurm", "--submit", "--overwrite", "--retry-failed",
                                                      "--quiet", "-q",       "--json"};
  constexpr std::array<std::string_view, 6> kValues{"--array", "--partition", "--time", "--threads", "--output", "-o"};
  std::vector<std::string> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    if (std::find(kSwitches.begin(), kSwitches.end(), name) != kSwitches.end()) {
      continue;
    }
    if (std::find(kValues.begin(), kValues.end(), name) != kValues.end()) {
      i += name == words[i] ? 1 : 0;
    } else if (!(words[i].starts_with("-o") && !words[i].starts_with("--"))) {
      out.push_back(words[i]);
    }
  }
  return out;
}

}  // namespace

void add_slurm_options(po::options_description& options) {
  options.add_options()(
      "slurm", po::bool_switch(),
      "run nothing here: write OUTPUT/slurm/submit.sh, which submits the sweep to Slurm as an array of "
      "parts and a job after them that gathers the results. Needs -o, a folder that all nodes share")(
      "submit", po::bool_switch(), "with --slurm: also run that script")(
      "array", po::value<int>(), "with --slurm: number of parts, at most one per point; default 64")(
      "partition", po::value<std::string>(),
      "with --slurm: partition; accounts and the like by sbatch's SBATCH_ACCOUNT, "
      "SBATCH_QOS, ...")("time", po::value<std::string>(), "with --slurm: time limit of a part, as sbatch takes it");
}

void check_slurm_options(const po::variables_map& values) {
  const bool slurm = values["slurm"].as<bool>();
  for (const char* option : {"array", "partition", "time"}) {
    refuse_if(!slurm && values.count(option) > 0, option, "this option is for --slurm.");
  }
  refuse_if(!slurm && values["submit"].as<bool>(), "submit", "this option is for --slurm.");
  if (!slurm) {
    return;
  }
  refuse_if(values.count("output") == 0, "slurm", "name a folder that all nodes share, as in -o /shared/study.");
  refuse_if(values.count("shard") > 0, "slurm", "the array sets the shards; leave --shard out.");
  if (values.count("array") > 0) {
    const int parts = values["array"].as<int>();
    refuse_if(parts < 1 || parts > kMostParts, "array",
              fmt::format("{} is not a number of parts from 1 to {}.", parts, kMostParts));
  }
}

std::string slurm_script(const std::vector<std::string>& words, const po::variables_map& values,
                         const fs::path& folder) {
  std::vector<std::string> command{quoted(fs::read_symlink("/proc/self/exe").string()), "sweep"};
  std::ranges::transform(words_of_parts(words), std::back_inserter(command), quoted);
  const int threads = std::max(1, values["threads"].as<int>());
  const std::string target = fs::absolute(folder).lexically_normal().string();
  const std::string common = fmt::format("{} -q --threads {} -o {}", fmt::join(command, " "), threads, quoted(target));
  std::string options = fmt::format("--cpus-per-task={}", threads);
  for (const char* option : {"partition", "time"}) {
    if (values.count(option) > 0) {
      options += fmt::format(" --{}={}", option, quoted(values[option].as<std::string>()));
    }
  }
  const int parts = values["array"].as<int>();
  const std::string name = fs::path(target).filename().string(), logs = quoted(target + "/slurm/");
  const std::string place = quoted(fs::current_path().string());
  return fmt::format(R"(#!/bin/sh
# Submits the sweep in {target}: {parts} parts, and a job after them that runs what they left over and gathers the results.
set -e
parts=$(sbatch --parsable --job-name={name} --array=1-{parts} --requeue {options} --output={logs}part-%a.log <<'END'
#!/bin/sh
cd {place} && exec {common} --shard "$SLURM_ARRAY_TASK_ID/{parts}"
END
)
gather=$(sbatch --parsable --job-name={name}-gather --dependency="afterany:${{parts%%;*}}" --requeue {options} --output={logs}gather.log <<'END'
#!/bin/sh
cd {place} && exec {common}
END
)
echo "submitted: parts are job ${{parts%%;*}}, results are gathered by job ${{gather%%;*}}"
)",
                     fmt::arg("target", target), fmt::arg("parts", parts), fmt::arg("name", quoted("epsim-" + name)),
                     fmt::arg("options", options), fmt::arg("logs", logs), fmt::arg("place", place),
                     fmt::arg("common", common));
}

std::string hand_to_slurm(const std::vector<std::string>& words, const po::variables_map& values,
                          const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder / "slurm", failed);
  const fs::path file = folder / "slurm" / "submit.sh";
  write_file_atomically(file, slurm_script(words, values, folder));
  std::string out = fmt::format("script: {}\n", file.string());
  if (!values["submit"].as<bool>()) {
    return out + fmt::format("submit it with: sh {}\n", quoted(file));
  }
  std::FILE* const script = popen(fmt::format("sh {} 2>&1", quoted(file)).c_str(), "r");
  std::string said;
  std::array<char, 4096> piece{};
  while (script != nullptr && std::fgets(piece.data(), piece.size(), script) != nullptr) {
    said += piece.data();
  }
  if (script == nullptr || pclose(script) != 0) {
    throw RunFailed(fmt::format("{} failed: {}", file.string(), said));
  }
  return out + said + fmt::format("progress: epsim sweep --status {}\n", folder.string());
}

}  // namespace epsim::app
