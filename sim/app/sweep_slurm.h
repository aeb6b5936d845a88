// A sweep as a job array of Slurm: one script that submits its parts, and a job after them that gathers the results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/app/po.h"

namespace epsim::app {

// --slurm, --submit, --array, --partition, --time.
void add_slurm_options(po::options_description& options);
// Throws InputError where they contradict each other.
void check_slurm_options(const po::variables_map& values);

// The script: `words` are those of the sweep's command line. Logs go to `folder`/slurm.
std::string slurm_script(const std::vector<std::string>& words, const po::variables_map& values,
                         const std::filesystem::path& folder);

// Writes `folder`/slurm/submit.sh and, with --submit, runs it. Returns what the user reads. Throws RunFailed.
std::string hand_to_slurm(const std::vector<std::string>& words, const po::variables_map& values,
                          const std::filesystem::path& folder);

}  // namespace epsim::app
